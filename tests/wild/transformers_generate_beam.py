"""transformers' generate with beam search (GPT-2 from a config)"""
NEEDS = ["transformers"]
EXPECT = {"steps": 0, "phases": {"prefill": 1, "decode": 5}}

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=96, n_positions=64)).eval()
model.generate(
    torch.randint(3, 96, (2, 10)), max_new_tokens=6, min_new_tokens=6, num_beams=3, do_sample=False, pad_token_id=0
)
