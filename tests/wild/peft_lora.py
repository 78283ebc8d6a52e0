"""PEFT: LoRA on a Llama, with the adapter switched off as the reference"""
NEEDS = ["transformers", "peft"]
EXPECT = {"steps": 3, "phases": {"train": 3, "forward": 3}}

import torch
from peft import LoraConfig, get_peft_model
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
    LoraConfig(r=4, target_modules=["q_proj", "v_proj"]),
)
optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3)
for _ in range(3):
    ids = torch.randint(0, 96, (2, 16))
    with torch.no_grad(), model.disable_adapter():
        model(input_ids=ids)
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
