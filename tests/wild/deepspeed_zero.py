"""DeepSpeed's engine, ZeRO stage 2 on the CPU with two groups of parameters and accumulation"""
NEEDS = ["deepspeed"]
EXPECT = {"steps": 3, "phases": {"train": 6}}

import os

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29611",
                  DS_ACCELERATOR="cpu")
import deepspeed
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam([{"params": model[0].parameters()}, {"params": model[2].parameters()}])
engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config={
    "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": True})
for _ in range(6):
    x, y = torch.randn(4, 16, dtype=torch.bfloat16), torch.randint(4, (4,))
    engine.backward(nn.functional.cross_entropy(engine(x).float(), y))
    engine.step()
