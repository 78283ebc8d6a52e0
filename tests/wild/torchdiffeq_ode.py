"""torchdiffeq: an ODE learned through its adjoint"""
NEEDS = ["torchdiffeq"]
EXPECT = {"steps": 2, "phases": ["train"]}

import torch
from torch import nn
from torchdiffeq import odeint_adjoint


class Slope(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y**3)


torch.manual_seed(0)
model = Slope()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for _ in range(2):
    path = odeint_adjoint(model, torch.tensor([[2.0, 0.0]]), torch.linspace(0, 1, 5), method="rk4")
    path.abs().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
