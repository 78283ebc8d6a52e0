"""word2vec: skip-gram with negative sampling, tables and a batched product"""

NEEDS = ["torch"]
EXPECT = {"steps": 5, "phases": {"train": 5}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)
u, v = nn.Embedding(200, 16, sparse=True), nn.Embedding(200, 16, sparse=True)
opt = torch.optim.SparseAdam([*u.parameters(), *v.parameters()])
for _ in range(5):
    c, o, n = torch.randint(200, (32,)), torch.randint(200, (32, 1)), torch.randint(200, (32, 5))
    s = torch.bmm(v(torch.cat([o, n], 1)), u(c).unsqueeze(2)).squeeze(2)
    y = torch.zeros(32, 6)
    y[:, 0] = 1
    F.binary_cross_entropy_with_logits(s, y).backward()
    opt.step()
    opt.zero_grad()
