"""Steps without an optimizer of torch.optim are recognised by what happens to parameters after a backward."""

import pytest
from test_manners import run_program

BEGIN = """
import torch
from torch import nn
from mfu import _observer
_observer.start(region_folder="")
torch.manual_seed(0)
"""
END = """
_observer.library().last_step()
print(_observer.totals().steps)
"""

# Writes through .data do not change a tensor's version, and the gradients stay.
DATA = """
model = nn.Linear(6, 2)
for _ in range(5):
    model(torch.randn(4, 6)).sum().backward()
    for p in model.parameters():
        p.data -= 0.1 * p.grad.data
        p.grad.data.zero_()
"""
# Most rows of the table do not change.
TABLE = """
table, layer = nn.Embedding(1000, 8), nn.Linear(8, 2)
for _ in range(4):
    for _ in range(3):
        layer(table(torch.randint(1000, (2, 3)))).sum().backward()
    for p in [*table.parameters(), *layer.parameters()]:
        p.data.add_(p.grad.data, alpha=-0.1)
        p.grad.zero_()
"""
# Weights are cast again for each pass, which alone is not an update.
CAST = """
model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            y = model(torch.randn(4, 6))
        y.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Like SAM: the weights are moved and evaluated again before the optimizer steps.
MOVED_BEFORE = """
model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(4, 6)
    model(x).sum().backward()
    with torch.no_grad():
        moves = [0.1 * p.grad for p in model.parameters()]
        for p, move in zip(model.parameters(), moves):
            p += move
    model.zero_grad()
    model(x).sum().backward()
    with torch.no_grad():
        for p, move in zip(model.parameters(), moves):
            p -= move
    optimizer.step()
    optimizer.zero_grad()
"""
# There is an optimizer, but nobody steps it.
IDLE_OPTIMIZER = """
model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    model(torch.randn(4, 6)).sum().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    optimizer.zero_grad()
"""
CAST_BY_HAND = """
model = nn.Linear(6, 2)
for _ in range(3):
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            y = model(torch.randn(4, 6))
        y.sum().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad = None
"""
# Like DeepSpeed's ZeRO: gradients go elsewhere after each backward, and the optimizer steps later.
MOVED = """
model, kept = nn.Linear(6, 2), {}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for _ in range(2):
        model(torch.randn(4, 6)).sum().backward()
        for p in model.parameters():
            kept[p] = kept.get(p, 0) + p.grad
            p.grad = None
    for p in model.parameters():
        p.grad = kept.pop(p)
    optimizer.step()
    optimizer.zero_grad()
"""
# The members of an ensemble are stacked, and vmap turns their products into one batched product.
ENSEMBLE = """
from torch.func import functional_call, grad, stack_module_state, vmap
members = [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)]
parameters, buffers = stack_module_state(members)
shape = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).to("meta")
def loss(parameters, buffers, x):
    return functional_call(shape, (parameters, buffers), (x,)).pow(2).sum()
for _ in range(5):
    gradients = vmap(grad(loss), (0, 0, None))(parameters, buffers, torch.randn(4, 6))
    parameters = {name: (value - 0.1 * gradients[name]).detach() for name, value in parameters.items()}
"""


PROGRAMS = {"data": (DATA, 5), "table": (TABLE, 4), "cast": (CAST, 3), "cast_by_hand": (CAST_BY_HAND, 3),
            "moved": (MOVED, 3), "ensemble": (ENSEMBLE, 5), "moved_before": (MOVED_BEFORE, 4),
            "idle_optimizer": (IDLE_OPTIMIZER, 4)}


@pytest.mark.parametrize("program, steps", PROGRAMS.values(), ids=PROGRAMS)
def test_a_step_is_seen_once(program, steps):
    assert run_program(BEGIN + program + END).split()[-1] == str(steps)
