"""A small GPT with block-diagonal masks of packed documents, bf16 autocast, clipping and evaluation"""
NEEDS = ["torch"]
EXPECT = {"steps": 3, "tokens": 4 * 2 * 16, "phases": {"train": 3, "validation": 1}}

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x, mask):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.blocks = nn.Embedding(70, 32), nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(32, 70, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids, mask):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
documents = torch.tensor([[0] * 5 + [1] * 11, [0] * 8 + [1] * 8])
mask = (documents[:, None, :, None] == documents[:, None, None, :]) & torch.ones(16, 16, dtype=torch.bool).tril()
for _ in range(3):
    ids = torch.randint(70, (2, 16))
    with torch.autocast("cpu", torch.bfloat16):
        loss = F.cross_entropy(model(ids, mask).float().view(-1, 70), ids.view(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
model.eval()
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
    ids = torch.randint(70, (2, 16))
    F.cross_entropy(model(ids, mask).float().view(-1, 70), ids.view(-1)).item()
