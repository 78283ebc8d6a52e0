"""accelerate with gradient accumulation"""
NEEDS = ["accelerate"]
EXPECT = {"steps": 3, "samples": 24, "phases": {"train": 6}}

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
net, optimizer, loader = accelerator.prepare(
    net, torch.optim.SGD(net.parameters(), lr=0.1), DataLoader(TensorDataset(torch.randn(24, 16)), batch_size=4)
)
for (x,) in loader:
    with accelerator.accumulate(net):
        accelerator.backward(net(x).sum())
        optimizer.step()
        optimizer.zero_grad()
