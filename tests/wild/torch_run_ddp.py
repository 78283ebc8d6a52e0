"""torchrun: DDP with two ranks, accumulation with no_sync, an evaluation"""

NEEDS = ["torch"]
ALONE = False
WHY = "the ranks are processes of their own"
EXPECT = {"steps": 3, "phases": {"train": 12, "validation": 2}}
import os, sys, subprocess

if "LOCAL_RANK" not in os.environ:
    sys.exit(
        subprocess.call(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nproc-per-node",
                "2",
                "--standalone",
                __file__,
            ]
        )
    )
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
model = DDP(net)
opt = torch.optim.AdamW(model.parameters())
for _ in range(3):
    with model.no_sync():
        nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
    nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
    opt.step()
    opt.zero_grad()
model.eval()
with torch.no_grad():
    nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,)))
dist.destroy_process_group()
