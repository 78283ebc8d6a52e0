"""T5 trained by hand: encoder and decoder are one batch of samples"""
NEEDS = ["transformers"]
EXPECT = {"steps": 3, "tokens": 3 * (4 * 14 + 4 * 9), "samples": 12, "phases": ["train"]}

import torch
from transformers import T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
model = T5ForConditionalGeneration(
    T5Config(num_layers=2, d_model=32, d_ff=64, d_kv=8, num_heads=4, vocab_size=512, decoder_start_token_id=0)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    model(input_ids=torch.randint(3, 512, (4, 14)), labels=torch.randint(3, 512, (4, 9))).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
