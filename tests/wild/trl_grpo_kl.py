"""TRL's GRPOTrainer with a reward model, a KL term and two updates a batch"""

NEEDS = ["trl"]
EXPECT = {"steps": 4, "phases": {"train": 4, "prefill": 2, "decode": 10, "forward": 6}}
from shared import train_by_reward
from trl import GRPOConfig, GRPOTrainer

train_by_reward(GRPOTrainer, GRPOConfig, max_steps=4, num_iterations=2)
