"""PEFT: prefix tuning on a Llama, with labels of -100 over the prompt"""

NEEDS = ["peft"]
EXPECT = {"steps": 3, "phases": {"train": 3, "validation": 1}}
import torch
from peft import PrefixTuningConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
model = get_peft_model(
    LlamaForCausalLM(
        LlamaConfig(
            num_hidden_layers=2,
            hidden_size=32,
            intermediate_size=64,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=96,
        )
    ),
    PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4),
)
opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
model.train()
for _ in range(3):
    ids = torch.randint(0, 96, (2, 16))
    labels = ids.clone()
    labels[:, :4] = -100
    model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss.backward()
    opt.step()
    opt.zero_grad()
model.eval()
with torch.no_grad():
    model(input_ids=ids, labels=ids)
