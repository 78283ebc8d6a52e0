"""torchrun: fully_shard with mixed precision, two ranks"""

NEEDS = ["torch"]
ALONE = False
WHY = "the ranks are processes of their own"
EXPECT = {"steps": 3, "tokens": 3 * 2 * 4 * 12, "phases": {"train": 6}}
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
from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)


class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(64, 32)
        s.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0) for _ in range(2)
        )
        s.h = nn.Linear(32, 64)

    def forward(s, x):
        x = s.e(x)
        for b in s.blocks:
            x = b(x)
        return s.h(x)


m = M()
for b in m.blocks:
    fully_shard(b, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
fully_shard(m, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32))
opt = torch.optim.AdamW(m.parameters())
for _ in range(3):
    x = torch.randint(64, (4, 12))
    nn.functional.cross_entropy(m(x).flatten(0, 1), x.flatten()).backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
dist.destroy_process_group()
