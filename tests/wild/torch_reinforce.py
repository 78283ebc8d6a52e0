"""torch's reinforcement_learning/reinforce.py: one backward over the passes of an episode"""
NEEDS = ["torch"]
EXPECT = {"steps": 4, "tokens": None, "phases": ["train"]}

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1, self.dropout, self.affine2 = nn.Linear(4, 128), nn.Dropout(p=0.6), nn.Linear(128, 2)

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.dropout(self.affine1(x)))), dim=1)


torch.manual_seed(0)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(4):
    kept = []
    for _ in range(50):
        m = Categorical(policy(torch.randn(1, 4)))
        kept.append(-m.log_prob(m.sample()) * torch.rand(1))
    optimizer.zero_grad()
    torch.cat(kept).sum().backward()
    optimizer.step()
