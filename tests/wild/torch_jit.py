"""torch.jit.script of a model: trained, then evaluated frozen"""

NEEDS = ["torch"]
EXPECT = {"steps": 4, "phases": {"train": 4, "validation": 2}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)
m = torch.jit.script(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for _ in range(4):
    F.cross_entropy(m(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
    opt.step()
    opt.zero_grad()
m.eval()
with torch.no_grad():
    for _ in range(2):
        m(torch.randn(8, 16))
