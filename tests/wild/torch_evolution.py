"""Evolution strategies: gradients made by hand from forward passes alone, torch.optim steps"""
NEEDS = ["torch"]
EXPECT = {"steps": 3, "tokens": None, "phases": ["forward"]}

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(32, 16), torch.randint(4, (32,))
for _ in range(3):
    with torch.no_grad():
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        for _ in range(4):
            noise = [torch.randn_like(p) for p in model.parameters()]
            for p, n in zip(model.parameters(), noise):
                p.add_(n, alpha=0.01)
            loss = nn.functional.cross_entropy(model(x), y)
            for p, n in zip(model.parameters(), noise):
                p.sub_(n, alpha=0.01)
                p.grad.add_(n, alpha=float(loss))
    optimizer.step()
