"""PEFT: AdaLoRA on a Llama, with labels of -100 over the prompt"""

NEEDS = ["peft"]
EXPECT = {"steps": 3, "phases": {"train": 3, "validation": 1}}
from peft import AdaLoraConfig
from shared import train_adapter

train_adapter(AdaLoraConfig(init_r=4, target_r=2, total_step=20, target_modules=["q_proj", "v_proj"]))
