"""PEFT: IA3 on a Llama, with labels of -100 over the prompt"""

NEEDS = ["peft"]
EXPECT = {"steps": 3, "phases": {"train": 3, "validation": 1}}
from peft import IA3Config
from shared import train_adapter

train_adapter(IA3Config(target_modules=["q_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]))
