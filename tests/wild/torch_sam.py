"""SAM by hand: the first of two backwards moves the weights"""

NEEDS = ["torch"]
EXPECT = {"steps": 4, "phases": {"train": 8}}
import torch
from torch import nn

torch.manual_seed(0)


class SAM(torch.optim.Optimizer):
    def __init__(s, params, base, rho=0.05, **kw):
        super().__init__(params, dict(rho=rho, **kw))
        s.base_optimizer = base(s.param_groups, **kw)
        s.param_groups = s.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(s, zero_grad=False):
        n = torch.norm(torch.stack([p.grad.norm() for g in s.param_groups for p in g["params"]]))
        for g in s.param_groups:
            for p in g["params"]:
                s.state[p]["old"] = p.data.clone()
                p.add_(p.grad * g["rho"] / (n + 1e-12))
        if zero_grad:
            s.zero_grad()

    @torch.no_grad()
    def second_step(s, zero_grad=False):
        for g in s.param_groups:
            for p in g["params"]:
                p.data = s.state[p]["old"]
        s.base_optimizer.step()
        if zero_grad:
            s.zero_grad()


m = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = SAM(m.parameters(), torch.optim.SGD, lr=0.1)
for _ in range(4):
    x, y = torch.randn(8, 16), torch.randint(4, (8,))
    nn.functional.cross_entropy(m(x), y).backward()
    opt.first_step(zero_grad=True)
    nn.functional.cross_entropy(m(x), y).backward()
    opt.second_step(zero_grad=True)
