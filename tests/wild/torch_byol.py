"""BYOL: an online and a target net, two views; then a linear probe on frozen features"""

NEEDS = ["torch"]
EXPECT = {"steps": 6, "phases": {"train": 9, "validation": 3, "forward": 6}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)
import copy

enc = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 16))
pred = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
tgt = copy.deepcopy(enc).requires_grad_(False)
opt = torch.optim.Adam([*enc.parameters(), *pred.parameters()])
for _ in range(3):
    a, b = torch.randn(8, 3, 8, 8), torch.randn(8, 3, 8, 8)
    with torch.no_grad():
        ta, tb = tgt(a), tgt(b)
    (-F.cosine_similarity(pred(enc(a)), tb).mean() - F.cosine_similarity(pred(enc(b)), ta).mean()).backward()
    opt.step()
    opt.zero_grad()
    with torch.no_grad():
        for p, q in zip(tgt.parameters(), enc.parameters()):
            p.lerp_(q, 0.01)
enc.eval()
probe = nn.Linear(16, 4)
opt = torch.optim.SGD(probe.parameters(), lr=0.1)
for _ in range(3):
    with torch.no_grad():
        f = enc(torch.randn(8, 3, 8, 8))
    F.cross_entropy(probe(f), torch.randint(4, (8,))).backward()
    opt.step()
    opt.zero_grad()
