"""A small CNN trained under autocast, validated without it, as many scripts do"""

NEEDS = ["torch"]
EXPECT = {"steps": 6, "samples": 6 * 8 + 4 * 8, "phases": {"train": 6, "validation": 4}}
import torch
from torch import nn

torch.manual_seed(0)
m = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for e in range(2):
    m.train()
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(m(torch.randn(8, 3, 8, 8)), torch.randint(4, (8,)))
        loss.backward()
        opt.step()
        opt.zero_grad()
    m.eval()
    with torch.no_grad():
        for _ in range(2):
            m(torch.randn(8, 3, 8, 8))
