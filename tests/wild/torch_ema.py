"""Averaged weights (swa_utils), batch statistics renewed, the average evaluated"""
NEEDS = ["torch"]
EXPECT = {"steps": 6, "tokens": None, "phases": {"train": 6, "forward": 6}}

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = DataLoader(TensorDataset(torch.randn(24, 16), torch.randint(4, (24,))), batch_size=8)
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
swa = SWALR(optimizer, swa_lr=0.05)
for epoch in range(2):
    for x, y in data:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        ema.update_parameters(model)
    swa.step()
update_bn(data, ema)
ema.eval()
with torch.no_grad():
    for x, y in data:
        nn.functional.cross_entropy(ema(x), y)
