"""pytorch-metric-learning: a triplet loss on an embedding (its miner compares without grad: forward)"""
NEEDS = ["pytorch_metric_learning"]
EXPECT = {"steps": 3, "phases": ["forward", "train"]}

import torch
from pytorch_metric_learning import losses, miners
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
miner, loss = miners.MultiSimilarityMiner(), losses.TripletMarginLoss()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    labels = torch.randint(3, (12,))
    out = model(torch.randn(12, 16))
    loss(out, labels, miner(out, labels)).backward()
    optimizer.step()
    optimizer.zero_grad()
