"""Evaluation that forgets eval(): no_grad passes of the model in training mode; then with eval() and grad on"""

NEEDS = ["torch"]
EXPECT = {"steps": 6, "samples": 14 * 8, "phases": {"train": 6, "forward": 4, "validation": 4}}
import torch
from torch import nn

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for e in range(2):
    for _ in range(3):
        nn.functional.cross_entropy(m(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
        opt.step()
        opt.zero_grad()
    with torch.no_grad():
        for _ in range(2):
            nn.functional.cross_entropy(m(torch.randn(8, 16)), torch.randint(4, (8,)))
    m.eval()
    for _ in range(2):
        nn.functional.cross_entropy(m(torch.randn(8, 16)), torch.randint(4, (8,)))
    m.train()
