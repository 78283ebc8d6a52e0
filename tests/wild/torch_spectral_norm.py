"""A discriminator with spectral norm: its power iteration is part of the pass, its vectors are no samples"""
NEEDS = ["torch"]
EXPECT = {"steps": 3, "samples": 15, "tokens": None, "phases": ["train"]}

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

torch.manual_seed(0)
net = nn.Sequential(spectral_norm(nn.Linear(8, 16)), nn.LeakyReLU(0.1), spectral_norm(nn.Linear(16, 1)))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    net(torch.randn(5, 8)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
