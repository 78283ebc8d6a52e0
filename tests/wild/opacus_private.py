"""opacus' PrivacyEngine: a gradient for each sample, clipped before the optimizer steps"""
NEEDS = ["opacus"]
EXPECT = {"steps": 4, "phases": ["train"]}

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
data = DataLoader(TensorDataset(torch.randn(32, 16), torch.randint(4, (32,))), batch_size=8)
model, optimizer, data = PrivacyEngine().make_private(
    module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=data, noise_multiplier=1.0,
    max_grad_norm=1.0, poisson_sampling=False)
for x, y in data:
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
