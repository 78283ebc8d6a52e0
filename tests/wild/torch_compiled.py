"""torch.compile of a training step: nothing of it is validation, tokens count once"""
NEEDS = ["torch"]
EXPECT = {"steps": 4, "tokens": 4 * 2 * 16, "phases": ["train"]}

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=32, n_head=4, vocab_size=96, n_positions=32))
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    ids = torch.randint(0, 96, (2, 16))
    compiled(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
