"""An optimizer for each parameter that steps inside the backward, with a schedule (torch's tutorial)"""
NEEDS = ["torch"]
EXPECT = {"steps": 4, "samples": 4 * 8, "phases": {"train": 4}}

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
optimizers = {each: torch.optim.Adam([each], foreach=False) for each in model.parameters()}
schedules = [torch.optim.lr_scheduler.LinearLR(each) for each in optimizers.values()]


def step(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for each in model.parameters():
    each.register_post_accumulate_grad_hook(step)
for _ in range(4):
    nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
    for each in schedules:
        each.step()
