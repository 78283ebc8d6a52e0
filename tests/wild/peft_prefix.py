"""PEFT: prefix tuning on a Llama, with labels of -100 over the prompt"""

NEEDS = ["peft"]
EXPECT = {"steps": 3, "phases": {"train": 3, "validation": 1}}
from peft import PrefixTuningConfig
from shared import train_adapter

train_adapter(PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4))
