"""torchrun: pipeline parallel with 1F1B, two ranks"""

NEEDS = ["torch"]
ALONE = False
WHY = "the ranks are processes of their own"
EXPECT = {"steps": 3}
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
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
part = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
stage = PipelineStage(part, rank, 2, torch.device("cpu"))
sched = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
opt = torch.optim.AdamW(part.parameters())
for _ in range(3):
    x = torch.randn(16, 16)
    if rank == 0:
        sched.step(x)
    else:
        sched.step(target=x)
    opt.step()
    opt.zero_grad()
dist.destroy_process_group()
