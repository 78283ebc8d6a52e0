"""torch.compile with max-autotune, evaluation in between"""

NEEDS = ["torch"]
EXPECT = {
    "steps": 6,
    "tokens": sum(2 * n for n in (12, 12, 12, 12, 12, 12)) + 3 * 2 * 12,
    "phases": {"train": 6, "validation": 3},
}
WHY = "the counter does not see into compiled graphs"
import torch
from torch import nn

torch.manual_seed(0)


class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(64, 32)
        s.q = nn.Linear(32, 96)
        s.o = nn.Linear(32, 32)
        s.f = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        s.h = nn.Linear(32, 64)

    def forward(s, x):
        x = s.e(x)
        b, n, _ = x.shape
        q, k, v = s.q(x).view(b, n, 3, 4, 8).permute(2, 0, 3, 1, 4)
        x = x + s.o(
            nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, 32)
        )
        return s.h(x + s.f(x))


m = M()
c = torch.compile(m, mode="max-autotune")
opt = torch.optim.AdamW(m.parameters())
for i, n in enumerate((12, 12, 12, 12, 12, 12)):
    x = torch.randint(64, (2, n))
    nn.functional.cross_entropy(c(x).flatten(0, 1), x.flatten()).backward()
    opt.step()
    opt.zero_grad()
    if i % 2:
        c.eval()
        with torch.no_grad():
            x = torch.randint(64, (2, 12))
            nn.functional.cross_entropy(c(x).flatten(0, 1), x.flatten())
        c.train()
