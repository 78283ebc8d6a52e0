"""Mixed precision with a scaler that skips, gradient accumulation, a schedule and reentrant checkpoints"""
NEEDS = ["torch"]
EXPECT = {"steps": 4, "phases": {"train": 8}}

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
first = nn.Linear(16, 32)
blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(3))
head = nn.Linear(32, 4)
parameters = [*first.parameters(), *blocks.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)  # overflows at first: that step is skipped
for step in range(8):
    with torch.autocast("cpu", torch.bfloat16):
        x = first(torch.randn(8, 16))
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=True)
        loss = nn.functional.cross_entropy(head(x).float(), torch.randint(4, (8,))) / 2
    scaler.scale(loss).backward()
    if step % 2:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        schedule.step()
