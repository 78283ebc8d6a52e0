"""torch's tutorial of a compiled optimizer step, with a schedule"""

NEEDS = ["torch"]
EXPECT = {"steps": 5, "phases": {"train": 5}}
import torch
from torch import nn

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(m.parameters(), lr=torch.tensor(0.01))
sch = torch.optim.lr_scheduler.LinearLR(opt, total_iters=5)


@torch.compile(fullgraph=False)
def fn():
    opt.step()
    sch.step()


for _ in range(5):
    nn.functional.cross_entropy(m(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
    fn()
    opt.zero_grad()
