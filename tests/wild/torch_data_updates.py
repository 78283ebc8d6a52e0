"""Updates through .data, gradients set to zero in place, as old tutorials have it"""
NEEDS = ["torch"]
EXPECT = {"steps": 5, "tokens": None, "phases": {"train": 5}}

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
for _ in range(5):
    nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
    for p in model.parameters():
        p.data -= 0.1 * p.grad.data
        p.grad.data.zero_()
