"""A GPT with tied weights and accumulation, then sampling without a cache"""

NEEDS = ["torch"]
EXPECT = {
    "steps": 4,
    "tokens": 4 * 2 * 3 * 16 + sum(5 + i for i in range(6)),
    "kinds": {"training": 384, "evaluation": 0, "prompt": 5, "generated": 40, "padded": 0},
    "phases": {"train": 8, "prefill": 1, "decode": 5},
}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(s):
        super().__init__()
        s.n1, s.n2, s.q, s.o, s.f = (
            nn.LayerNorm(32),
            nn.LayerNorm(32),
            nn.Linear(32, 96),
            nn.Linear(32, 32),
            nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)),
        )

    def forward(s, x):
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, 4, 8).transpose(1, 2) for t in s.q(s.n1(x)).split(32, 2))
        x = x + s.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, 32))
        return x + s.f(s.n2(x))


class GPT(nn.Module):
    def __init__(s):
        super().__init__()
        s.t, s.p, s.b, s.n = (
            nn.Embedding(50, 32),
            nn.Embedding(64, 32),
            nn.ModuleList(Block() for _ in range(2)),
            nn.LayerNorm(32),
        )
        s.h = nn.Linear(32, 50, bias=False)
        s.h.weight = s.t.weight

    def forward(s, i, y=None):
        x = s.t(i) + s.p(torch.arange(i.size(1)))
        for b in s.b:
            x = b(x)
        x = s.h(s.n(x))
        return x, None if y is None else F.cross_entropy(x.flatten(0, 1), y.flatten())

    @torch.no_grad()
    def generate(s, i, n):
        for _ in range(n):
            i = torch.cat([i, torch.multinomial((s(i)[0][:, -1] / 0.8).softmax(-1), 1)], 1)
        return i


m = GPT()
opt = torch.optim.AdamW(
    [
        {"params": [p for p in m.parameters() if p.dim() > 1]},
        {"params": [p for p in m.parameters() if p.dim() < 2], "weight_decay": 0},
    ]
)
sch = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 4)
for _ in range(4):
    for _ in range(2):
        x = torch.randint(50, (3, 17))
        (m(x[:, :-1], x[:, 1:])[1] / 2).backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
    sch.step()
    opt.zero_grad(set_to_none=True)
m.eval()
m.generate(torch.randint(50, (1, 5)), 6)
