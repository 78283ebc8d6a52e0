"""A contrastive model of two towers by hand, as CLIP: both are training"""
NEEDS = ["torch"]
EXPECT = {"steps": 3, "phases": {"train": 6}}

import torch
from torch import nn
from torch.nn import functional as F


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(128, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.out = nn.Linear(32, 16)

    def forward(self, ids):
        return self.out(self.layer(self.table(ids)).mean(1))


torch.manual_seed(0)
image = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 16))
text = Text()
optimizer = torch.optim.AdamW([*image.parameters(), *text.parameters()])
for _ in range(3):
    a = F.normalize(image(torch.randn(6, 3, 16, 16)), dim=-1)
    b = F.normalize(text(torch.randint(128, (6, 9))), dim=-1)
    scores, target = a @ b.t() * 10, torch.arange(6)
    (F.cross_entropy(scores, target) + F.cross_entropy(scores.t(), target)).backward()
    optimizer.step()
    optimizer.zero_grad()
