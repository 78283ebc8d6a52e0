"""x-transformers' autoregressive wrapper: trains, then generates"""
NEEDS = ["x_transformers"]
EXPECT = {"steps": 3, "phases": ["decode", "prefill", "train"]}

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
model = AutoregressiveWrapper(TransformerWrapper(num_tokens=96, max_seq_len=32,
                                                 attn_layers=Decoder(dim=32, depth=2, heads=4, attn_dim_head=8)))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randint(0, 96, (2, 17))).backward()
    optimizer.step()
    optimizer.zero_grad()
model.generate(torch.randint(0, 96, (2, 5)), 6)
