"""PyTorch Geometric's GCN on a graph made here: trains on a mask, validates by hand"""
NEEDS = ["torch_geometric"]
EXPECT = {"steps": 4, "tokens": None, "phases": {"train": 4, "validation": 2}}

import torch
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

torch.manual_seed(0)
data = Data(x=torch.randn(60, 16), edge_index=torch.randint(60, (2, 240)), y=torch.randint(4, (60,)))
mask = torch.arange(60) < 40


class GCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(16, 32), GCNConv(32, 4)

    def forward(self, data):
        return self.second(F.relu(self.first(data.x, data.edge_index)), data.edge_index)


model = GCN()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(4):
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(data)[mask], data.y[mask]).backward()
    optimizer.step()
    if epoch % 2:
        model.eval()
        with torch.no_grad():
            model(data).argmax(-1)
