"""PEFT: DoRA on a Llama, with labels of -100 over the prompt"""

NEEDS = ["peft"]
EXPECT = {"steps": 3, "phases": {"train": 3, "validation": 1, "forward": 1}}
from peft import LoraConfig
from shared import train_adapter

train_adapter(LoraConfig(r=4, use_dora=True, target_modules=["q_proj", "v_proj"]))
