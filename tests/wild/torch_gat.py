"""torch's gat/main.py: graph attention by hand on a dense adjacency matrix"""
NEEDS = ["torch"]
EXPECT = {"steps": 4, "tokens": None, "samples": 9 * 30, "phases": {"train": 4, "validation": 5}}

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, i, o, heads, concat=True):
        super().__init__()
        self.heads, self.concat = heads, concat
        self.hidden = o // heads if concat else o
        self.W = nn.Parameter(torch.empty(i, self.hidden * heads))
        self.a = nn.Parameter(torch.empty(heads, 2 * self.hidden, 1))
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a)

    def forward(self, h, adj):
        n = h.shape[0]
        x = torch.mm(h, self.W).view(n, self.heads, self.hidden).permute(1, 0, 2)
        source = torch.matmul(x, self.a[:, : self.hidden, :])
        target = torch.matmul(x, self.a[:, self.hidden :, :])
        e = F.leaky_relu(source + target.mT, 0.2)
        attention = F.softmax(torch.where(adj > 0, e, -9e16 * torch.ones_like(e)), dim=-1)
        x = torch.matmul(F.dropout(attention, 0.6, training=self.training), x)
        return x.permute(1, 0, 2).reshape(n, -1) if self.concat else x.mean(dim=0)


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Layer(20, 32, 4), Layer(32, 5, 1, concat=False)

    def forward(self, x, adj):
        return F.log_softmax(self.two(F.elu(self.one(x, adj)), adj), dim=1)


torch.manual_seed(0)
x, adj, y = torch.rand(30, 20), (torch.rand(30, 30) > 0.7).float() + torch.eye(30), torch.randint(5, (30,))
model, criterion = GAT(), nn.NLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    model.train()
    optimizer.zero_grad()
    criterion(model(x, adj)[:20], y[:20]).backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        criterion(model(x, adj)[20:], y[20:]).item()
model.eval()
with torch.no_grad():
    criterion(model(x, adj)[20:], y[20:]).item()
