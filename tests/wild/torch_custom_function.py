"""Custom Functions with products of their own under autocast, evaluated without it"""

NEEDS = ["torch"]
EXPECT = {"steps": 3, "phases": {"train": 3, "validation": 1}}
import torch
from torch import nn
from torch.autograd.function import once_differentiable

torch.manual_seed(0)


class Mul(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.t()

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.to(g.dtype), g.t() @ x.to(g.dtype)


class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Parameter(torch.randn(32, 16) * 0.1)
        s.b = nn.Parameter(torch.randn(4, 32) * 0.1)

    def forward(s, x):
        return Mul.apply(torch.relu(Mul.apply(x, s.a)), s.b)


m = M()
opt = torch.optim.AdamW(m.parameters())
for _ in range(3):
    with torch.autocast("cpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(m(torch.randn(8, 16)).float(), torch.randint(4, (8,)))
    loss.backward()
    opt.step()
    opt.zero_grad()
m.eval()
with torch.no_grad():
    m(torch.randn(8, 16))
