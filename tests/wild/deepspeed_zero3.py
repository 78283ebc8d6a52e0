"""DeepSpeed's ZeRO stage 3 on the CPU: two ranks by torchrun, bf16"""

NEEDS = ["deepspeed"]
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
            ],
            env=dict(os.environ, DS_ACCELERATOR="cpu"),
        )
    )
import torch, deepspeed
from torch import nn

deepspeed.init_distributed("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
engine, *_ = deepspeed.initialize(
    model=net,
    model_parameters=net.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 8,
        "gradient_accumulation_steps": 1,
        "zero_optimization": {"stage": 3},
        "bf16": {"enabled": True},
        "zero_force_ds_cpu_optimizer": False,
        "optimizer": {"type": "AdamW", "params": {"torch_adam": True}},
    },
)
for _ in range(3):
    loss = nn.functional.cross_entropy(engine(torch.randn(8, 64).bfloat16()).float(), torch.randint(8, (8,)))
    engine.backward(loss)
    engine.step()
