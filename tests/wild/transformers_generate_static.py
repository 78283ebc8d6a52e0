"""transformers' generate with a static cache: keys are as long as they may become"""
NEEDS = ["transformers"]
EXPECT = {"steps": 0, "tokens": 3 * 12 + 3 * 7, "samples": 3, "phases": {"prefill": 1, "decode": 7}}

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                                     pad_token_id=0, eos_token_id=None)).eval()
model.generate(torch.randint(1, 96, (3, 12)), max_new_tokens=8, do_sample=False, cache_implementation="static")
