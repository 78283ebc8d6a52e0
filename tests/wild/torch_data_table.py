"""Updates through .data with accumulation over three batches and an embedding in front"""
NEEDS = ["torch"]
EXPECT = {"steps": 4, "tokens": 12 * 2 * 6, "phases": {"train": 12}}

import torch
from torch import nn

torch.manual_seed(0)
table, layer, head = nn.Embedding(1000, 16), nn.Linear(16, 32), nn.Linear(32, 1000)
parameters = [*table.parameters(), *layer.parameters(), *head.parameters()]
for step in range(4):
    for _ in range(3):
        tokens = torch.randint(1000, (2, 6))
        logits = head(torch.relu(layer(table(tokens))))
        nn.functional.cross_entropy(logits.view(-1, 1000), tokens.view(-1)).backward()
    for p in parameters:
        p.data.add_(p.grad.data, alpha=-0.1)
        p.grad.zero_()
