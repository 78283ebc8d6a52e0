"""Shampoo by hand as an Optimizer: its products belong to the step"""
NEEDS = ["torch"]
EXPECT = {"steps": 4, "tokens": None, "phases": {"train": 4}}

import torch
from torch import nn


class Shampoo(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None or p.ndim != 2:
                    continue
                s = self.state[p]
                if not s:
                    s["l"], s["r"] = torch.eye(p.shape[0]) * 1e-4, torch.eye(p.shape[1]) * 1e-4
                s["l"] += p.grad @ p.grad.T
                s["r"] += p.grad.T @ p.grad
                p -= group["lr"] * self.root(s["l"]) @ p.grad @ self.root(s["r"])

    def root(self, m):
        values, vectors = torch.linalg.eigh(m)
        return vectors @ torch.diag(values.clamp(min=1e-6) ** -0.25) @ vectors.T


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = Shampoo(model.parameters())
for _ in range(4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
    optimizer.step()
