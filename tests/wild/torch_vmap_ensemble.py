"""torch's tutorial of model ensembling: stacked members under vmap, updated without an optimizer"""
NEEDS = ["torch"]
EXPECT = {"steps": 5, "tokens": None, "samples": 5 * 8, "phases": {"train": 5}}

import copy

import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

torch.manual_seed(0)
members = [nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)) for _ in range(3)]
parameters, buffers = stack_module_state(members)
base = copy.deepcopy(members[0]).to("meta")


def loss(parameters, buffers, x, y):
    return nn.functional.cross_entropy(functional_call(base, (parameters, buffers), (x,)), y)


for _ in range(5):
    gradients = vmap(grad(loss), in_dims=(0, 0, None, None))(parameters, buffers, torch.randn(8, 16),
                                                            torch.randint(4, (8,)))
    parameters = {name: (value - 0.1 * gradients[name]).detach() for name, value in parameters.items()}
