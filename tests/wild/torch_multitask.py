"""A shared trunk, three heads: a backward each with retain_graph, gradients balanced by autograd.grad"""

NEEDS = ["torch"]
EXPECT = {"steps": 3, "phases": {"train": 3, "validation": 1}}
import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
heads = nn.ModuleList(nn.Linear(32, k) for k in (4, 1, 8))
opt = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.1)
for _ in range(3):
    z = trunk(torch.randn(8, 16))
    losses = [h(z).square().mean() for h in heads]
    norms = [torch.autograd.grad(l, z, retain_graph=True)[0].norm() for l in losses]
    for l, n in zip(losses[:-1], norms):
        (l / n).backward(retain_graph=True)
    (losses[-1] / norms[-1]).backward()
    opt.step()
    opt.zero_grad()
trunk.eval()
with torch.no_grad():
    [h(trunk(torch.randn(8, 16))) for h in heads[:1]]
