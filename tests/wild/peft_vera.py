"""PEFT: VeRA on a Llama, with labels of -100 over the prompt"""

NEEDS = ["peft"]
EXPECT = {"steps": 3, "phases": {"train": 3, "validation": 1}}
from peft import VeraConfig
from shared import train_adapter

train_adapter(VeraConfig(r=4, target_modules=["q_proj", "v_proj"]))
