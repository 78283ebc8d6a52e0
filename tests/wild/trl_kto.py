"""TRL's KTOTrainer: unpaired answers, a reference and passes for the KL term"""

NEEDS = ["trl"]
EXPECT = {"steps": 2, "phases": {"train": 2, "forward": 6}}
from shared import llama, train_by_preference

try:
    from trl import KTOConfig, KTOTrainer
except ImportError:
    from trl.experimental.kto import KTOConfig, KTOTrainer

rows = [{"prompt": f"w{i} w{i + 1} w{i + 2}", "completion": " w5 w6 w7", "label": i % 2 == 0} for i in range(8)]
train_by_preference(KTOTrainer, KTOConfig, rows, ref_model=llama())
