"""MoCo by hand: a momentum encoder, a queue of keys, and a nearest-neighbour test"""
NEEDS = ["torch"]
EXPECT = {"steps": 4, "tokens": None, "phases": {"train": 4, "forward": 4, "validation": 1}}

import copy

import torch
from torch import nn

torch.manual_seed(0)
q = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
k = copy.deepcopy(q).requires_grad_(False)
queue = nn.functional.normalize(torch.randn(8, 64), dim=0)
optimizer = torch.optim.SGD(q.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(8, 16)
    a = nn.functional.normalize(q(x), dim=1)
    with torch.no_grad():
        for p, m in zip(q.parameters(), k.parameters()):
            m.mul_(0.99).add_(p, alpha=0.01)
        b = nn.functional.normalize(k(x + 0.1 * torch.randn_like(x)), dim=1)
    logits = torch.cat([(a * b).sum(1, keepdim=True), a @ queue.clone()], 1)
    nn.functional.cross_entropy(logits / 0.07, torch.zeros(8, dtype=torch.long)).backward()
    optimizer.step()
    optimizer.zero_grad()
    queue = torch.cat([b.T, queue[:, :-8]], 1)
q.eval()
with torch.no_grad():
    f = nn.functional.normalize(q(torch.randn(16, 16)), dim=1)
    (f @ f.T).topk(3)
