"""transformers' assisted decoding: a small model drafts, the large one verifies"""
NEEDS = ["transformers"]
EXPECT = {"steps": 0, "phases": ["decode", "prefill"]}

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
common = dict(vocab_size=96, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
              max_position_embeddings=64, pad_token_id=0, eos_token_id=None)
model = LlamaForCausalLM(LlamaConfig(hidden_size=32, num_hidden_layers=2, **common)).eval()
assistant = LlamaForCausalLM(LlamaConfig(hidden_size=16, num_hidden_layers=1, **common)).eval()
model.generate(torch.randint(1, 96, (1, 12)), max_new_tokens=8, do_sample=False, assistant_model=assistant)
