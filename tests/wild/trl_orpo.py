"""TRL's ORPOTrainer: pairs, no reference"""

NEEDS = ["trl"]
EXPECT = {"steps": 2, "phases": {"train": 2}}
from shared import train_by_preference

try:
    from trl import ORPOConfig, ORPOTrainer
except ImportError:
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer

rows = [{"prompt": f"w{i} w{i + 1} w{i + 2}", "chosen": " w5 w6 w7", "rejected": " w8"} for i in range(8)]
train_by_preference(ORPOTrainer, ORPOConfig, rows)
