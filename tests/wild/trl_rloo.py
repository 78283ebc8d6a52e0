"""TRL's RLOOTrainer with a reward model and a KL term"""

NEEDS = ["trl"]
EXPECT = {"steps": 2, "phases": {"train": 2, "prefill": 2, "decode": 10, "forward": 6}}
from shared import train_by_reward
from trl import RLOOConfig, RLOOTrainer

train_by_reward(RLOOTrainer, RLOOConfig, max_steps=2)
