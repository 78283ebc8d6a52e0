"""Quantization-aware training by fake quantization and a straight-through estimator"""

NEEDS = ["torch"]
EXPECT = {"steps": 4, "phases": {"train": 4, "validation": 1}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)


class Q(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        s = w.abs().max() / 127
        return (w / s).round() * s

    @staticmethod
    def backward(ctx, g):
        return g


class QL(nn.Linear):
    def forward(s, x):
        return F.linear(x, Q.apply(s.weight), s.bias)


m = nn.Sequential(QL(16, 32), nn.ReLU(), QL(32, 4))
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for _ in range(4):
    F.cross_entropy(m(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
    opt.step()
    opt.zero_grad()
m.eval()
with torch.no_grad():
    m(torch.randn(8, 16))
