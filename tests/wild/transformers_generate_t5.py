"""transformers' generate of an encoder-decoder (T5 from a config): the encoder's pass and the first token are the
prompt"""
NEEDS = ["transformers"]
EXPECT = {"steps": 0, "tokens": 2 * 14 + 2 * 6, "phases": {"prefill": 2, "decode": 5}}

import torch
from transformers import T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
model = T5ForConditionalGeneration(
    T5Config(num_layers=2, d_model=32, d_ff=64, d_kv=8, num_heads=4, vocab_size=512, decoder_start_token_id=0)
).eval()
model.generate(torch.randint(3, 512, (2, 14)), max_new_tokens=6, min_new_tokens=6, do_sample=False, num_beams=1)
