"""A reversible network: a custom Function computes its inputs again in the backward"""

NEEDS = ["torch"]
EXPECT = {"steps": 3, "phases": {"train": 3, "validation": 1}}
WHY = "what a custom backward runs again"
import torch
from torch import nn

torch.manual_seed(0)


class Rev(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, blocks):
        with torch.no_grad():
            for f, g in blocks:
                a, b = x.chunk(2, -1)
                y = a + f(b)
                z = b + g(y)
                x = torch.cat([y, z], -1)
        ctx.y = x.detach()
        ctx.blocks = blocks
        return x

    @staticmethod
    def backward(ctx, dy):
        y = ctx.y
        for f, g in reversed(ctx.blocks):
            y1, y2 = y.chunk(2, -1)
            d1, d2 = dy.chunk(2, -1)
            with torch.enable_grad():
                y1 = y1.detach().requires_grad_()
                gy = g(y1)
                torch.autograd.backward(gy, d2)
            with torch.no_grad():
                x2 = y2 - gy
                dx1 = d1 + y1.grad
            with torch.enable_grad():
                x2 = x2.requires_grad_()
                fx = f(x2)
                torch.autograd.backward(fx, dx1)
            with torch.no_grad():
                x1 = y1 - fx
                dx2 = d2 + x2.grad
                y = torch.cat([x1, x2.detach()], -1)
                dy = torch.cat([dx1, dx2], -1)
        return dy, None


class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.i = nn.Linear(16, 32)
        s.b = nn.ModuleList(nn.ModuleList([nn.Linear(16, 16), nn.Linear(16, 16)]) for _ in range(3))
        s.o = nn.Linear(32, 4)

    def forward(s, x):
        return s.o(Rev.apply(s.i(x), [(f, g) for f, g in s.b]))


m = Net()
opt = torch.optim.Adam(m.parameters())
for _ in range(3):
    nn.functional.cross_entropy(m(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
    opt.step()
    opt.zero_grad()
m.eval()
with torch.no_grad():
    m(torch.randn(8, 16))
