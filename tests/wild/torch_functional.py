"""torch.func: gradients of a function of parameters, updated without an optimizer"""
NEEDS = ["torch"]
EXPECT = {"steps": 5, "phases": ["train"]}

import torch
from torch import nn
from torch.func import functional_call, grad

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
parameters = {name: value.detach() for name, value in model.named_parameters()}


def loss(parameters, x, y):
    return (functional_call(model, parameters, (x,)) - y).pow(2).mean()


for _ in range(5):
    gradients = grad(loss)(parameters, torch.randn(8, 16), torch.randn(8, 1))
    parameters = {name: value - 0.1 * gradients[name] for name, value in parameters.items()}
