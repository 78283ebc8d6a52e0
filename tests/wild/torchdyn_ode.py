"""torchdyn's NeuralODE: Runge-Kutta, differentiated by autograd"""
NEEDS = ["torchdyn"]
EXPECT = {"steps": 3, "tokens": None, "samples": 3 * 8, "phases": {"train": 3}}

import torch
from torch import nn
from torchdyn.core import NeuralODE

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
model = NeuralODE(net, sensitivity="autograd", solver="rk4", solver_adjoint="rk4")
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    _, path = model(torch.randn(8, 2), torch.linspace(0, 1, 5))
    path[-1].pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
