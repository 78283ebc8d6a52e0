"""schedulefree's AdamW: its own train() and eval() around validation"""
NEEDS = ["schedulefree"]
EXPECT = {"steps": 4, "phases": {"train": 4, "validation": 2}}

import schedulefree
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = schedulefree.AdamWScheduleFree(model.parameters())
for epoch in range(2):
    model.train()
    optimizer.train()
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
        optimizer.step()
    model.eval()
    optimizer.eval()
    with torch.no_grad():
        nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,)))
