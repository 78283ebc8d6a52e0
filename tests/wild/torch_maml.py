"""MAML by hand: inner steps that are differentiated, one outer step of Adam"""
NEEDS = ["torch"]
EXPECT = {"steps": 3, "tokens": None, "phases": ["train"]}

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    total = 0.0
    for _ in range(4):
        x = torch.rand(10, 1)
        params = dict(model.named_parameters())
        for _ in range(2):
            loss = nn.functional.mse_loss(functional_call(model, params, (x,)), torch.sin(x))
            grads = torch.autograd.grad(loss, params.values(), create_graph=True)
            params = {name: p - 0.1 * g for (name, p), g in zip(params.items(), grads)}
        total = total + nn.functional.mse_loss(functional_call(model, params, (x,)), torch.sin(x))
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
