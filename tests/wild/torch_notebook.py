"""A notebook's cells by exec: the model is made anew in a cell"""

NEEDS = ["torch"]
EXPECT = {"steps": 8, "phases": {"train": 8, "validation": 2}}

BEGIN = """
import torch
from torch import nn
torch.manual_seed(0)
history = []
"""
MAKE = """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters())
"""
TRAIN = """
for _ in range(4):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss)
"""
LOOK = """
model.eval()
with torch.no_grad():
    out = model(torch.randn(8, 16))
"""
space = {"__name__": "__main__"}
for number, cell in enumerate((BEGIN, MAKE, TRAIN, LOOK, MAKE, TRAIN, LOOK)):
    exec(compile(cell, f"<cell {number}>", "exec"), space)
