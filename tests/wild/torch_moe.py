"""A mixture of experts by hand: each expert sees the tokens it was given"""

NEEDS = ["torch"]
EXPECT = {"steps": 3, "tokens": 3 * 2 * 16, "phases": {"train": 3}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)


class MoE(nn.Module):
    def __init__(s):
        super().__init__()
        s.r = nn.Linear(32, 4, bias=False)
        s.e = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32)) for _ in range(4))

    def forward(s, x):
        f = x.flatten(0, 1)
        w, i = torch.topk(s.r(f).softmax(-1), 2)
        out = torch.zeros_like(f)
        for k, e in enumerate(s.e):
            t, j = torch.where(i == k)
            if len(t):
                out.index_add_(0, t, e(f[t]) * w[t, j, None])
        return x + out.view_as(x)


class LM(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(64, 32)
        s.a = nn.MultiheadAttention(32, 4, batch_first=True)
        s.m = MoE()
        s.h = nn.Linear(32, 64)

    def forward(s, x):
        x = s.e(x)
        x = (
            x
            + s.a(
                x,
                x,
                x,
                attn_mask=nn.Transformer.generate_square_subsequent_mask(x.size(1)),
                is_causal=True,
                need_weights=False,
            )[0]
        )
        return s.h(s.m(x))


m = LM()
opt = torch.optim.AdamW(m.parameters())
for _ in range(3):
    x = torch.randint(64, (2, 16))
    F.cross_entropy(m(x).flatten(0, 1), x.flatten()).backward()
    opt.step()
    opt.zero_grad()
