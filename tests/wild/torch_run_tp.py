"""torchrun: tensor parallel by parallelize_module, two ranks"""

NEEDS = ["torch"]
ALONE = False
WHY = "the ranks are processes of their own"
EXPECT = {"steps": 3, "phases": {"train": 6}}
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
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module, ColwiseParallel, RowwiseParallel

mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
m = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
parallelize_module(m, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
opt = torch.optim.AdamW(m.parameters(), foreach=False)
for _ in range(3):
    m(torch.randn(8, 16)).square().mean().backward()
    opt.step()
    opt.zero_grad()
dist.destroy_process_group()
