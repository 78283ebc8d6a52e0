"""A prefix language model: a float mask with ALiBi's bias, labels of -100 over the prefix"""

NEEDS = ["torch"]
EXPECT = {"steps": 3, "tokens": 3 * 4 * 12, "padded": 3 * 4 * 5, "phases": {"train": 3}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)


class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.e, s.q, s.h = nn.Embedding(64, 32), nn.Linear(32, 96), nn.Linear(32, 64)

    def forward(s, x, mask):
        x = s.e(x)
        b, n, _ = x.shape
        q, k, v = s.q(x).view(b, n, 3, 4, 8).permute(2, 0, 3, 1, 4)
        return s.h(x + F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(b, n, 32))


m = M()
opt = torch.optim.AdamW(m.parameters())
pos = torch.arange(12)
for _ in range(3):
    x = torch.randint(64, (4, 12))
    seen = (pos[None] <= pos[:, None]) | (pos[None] < 5)
    mask = (
        torch.zeros(4, 4, 12, 12)
        - (pos[:, None] - pos[None]).abs() * torch.tensor([0.5, 0.25, 0.125, 0.0625])[None, :, None, None]
    )
    mask = mask.masked_fill(~seen, float("-inf"))
    y = x.clone()
    y[:, :5] = -100
    F.cross_entropy(m(x, mask).flatten(0, 1), y.flatten()).backward()
    opt.step()
    opt.zero_grad()
