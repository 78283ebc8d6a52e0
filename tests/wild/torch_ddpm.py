"""A diffusion model by hand: time steps are no tokens; then it samples"""

NEEDS = ["torch"]
EXPECT = {"steps": 4, "tokens": None, "phases": {"train": 4, "validation": 10}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.t = nn.Embedding(100, 16)
        s.a = nn.Conv2d(1, 16, 3, padding=1)
        s.b = nn.Conv2d(16, 1, 3, padding=1)
        s.l = nn.Linear(16, 16)

    def forward(s, x, t):
        return s.b(torch.relu(s.a(x) + s.l(s.t(t))[:, :, None, None]))


m = Net()
opt = torch.optim.Adam(m.parameters())
beta = torch.linspace(1e-4, 0.02, 100)
abar = torch.cumprod(1 - beta, 0)
for _ in range(4):
    x, t, e = torch.randn(8, 1, 8, 8), torch.randint(100, (8,)), torch.randn(8, 1, 8, 8)
    a = abar[t][:, None, None, None]
    F.mse_loss(m(a.sqrt() * x + (1 - a).sqrt() * e, t), e).backward()
    opt.step()
    opt.zero_grad()
m.eval()
x = torch.randn(8, 1, 8, 8)
with torch.no_grad():
    for i in reversed(range(0, 100, 10)):
        x = x - 0.1 * m(x, torch.full((8,), i))
