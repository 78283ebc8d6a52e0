"""A Mamba's generate: a state instead of a cache"""
NEEDS = ["transformers"]
EXPECT = {"steps": 0, "phases": {"prefill": 1, "decode": 4}}

import torch
from transformers import MambaConfig, MambaForCausalLM

torch.manual_seed(0)
model = MambaForCausalLM(MambaConfig(num_hidden_layers=2, hidden_size=32, state_size=8, vocab_size=96)).eval()
model.generate(torch.randint(3, 96, (2, 10)), max_new_tokens=5, min_new_tokens=5, do_sample=False, pad_token_id=0)
