"""transformers' generate: greedy, a prompt of 12 and 8 new tokens (Llama from a config)"""
NEEDS = ["transformers"]
EXPECT = {
    "steps": 0,
    "tokens": 3 * (12 + 7),
    "kinds": {"training": 0, "evaluation": 0, "prompt": 36, "generated": 21, "padded": None},
    "phases": {"prefill": 1, "decode": 7},
}

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=96,
    )
).eval()
model.generate(torch.randint(3, 96, (3, 12)), max_new_tokens=8, min_new_tokens=8, do_sample=False, pad_token_id=0)
