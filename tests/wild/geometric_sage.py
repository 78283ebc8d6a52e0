"""PyTorch Geometric: GraphSAGE + GAT on batches of small graphs, graph classification"""

NEEDS = ["torch_geometric"]
EXPECT = {"steps": 4, "phases": {"train": 4, "validation": 2}}
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import SAGEConv, GATConv, global_mean_pool

torch.manual_seed(0)
gs = [Data(x=torch.randn(10, 8), edge_index=torch.randint(10, (2, 30)), y=torch.randint(3, (1,))) for _ in range(16)]


class N(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = SAGEConv(8, 16)
        s.b = GATConv(16, 8, heads=2)
        s.c = nn.Linear(16, 3)

    def forward(s, d):
        return s.c(global_mean_pool(s.b(s.a(d.x, d.edge_index).relu(), d.edge_index), d.batch))


m = N()
opt = torch.optim.Adam(m.parameters())
for d in DataLoader(gs, batch_size=4):
    nn.functional.cross_entropy(m(d), d.y).backward()
    opt.step()
    opt.zero_grad()
m.eval()
for d in DataLoader(gs, batch_size=8):
    m(d).argmax(-1)
