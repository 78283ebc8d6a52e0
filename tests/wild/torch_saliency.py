"""Saliency and an FGSM attack: gradients of the input, nothing is trained"""
NEEDS = ["torch"]
EXPECT = {"steps": 0, "tokens": None, "phases": {"train": 5, "forward": 5}}

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
for _ in range(5):
    x = torch.randn(8, 16, requires_grad=True)
    loss = nn.functional.cross_entropy(model(x), torch.randint(4, (8,)))
    model.zero_grad()
    loss.backward()
    adversarial = x + 0.1 * x.grad.sign()
    model(adversarial.detach())
