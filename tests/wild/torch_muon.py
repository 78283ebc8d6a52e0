"""Muon by hand: Newton-Schulz products in a function of its own, no Optimizer class"""
NEEDS = ["torch"]
EXPECT = {"steps": 4, "tokens": None, "phases": {"train": 4}}

import torch
from torch import nn


def orthogonal(g, steps=5):
    x = g / (g.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
momentum = {p: torch.zeros_like(p) for p in model.parameters()}
for _ in range(4):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,)))
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            momentum[p].mul_(0.9).add_(p.grad)
            p -= 0.02 * (orthogonal(momentum[p]) if p.ndim == 2 else momentum[p])
            p.grad = None
