"""A DLRM by hand: embedding bags for sparse features, dense and over MLPs, sparse gradients with two optimizers"""

NEEDS = ["torch"]
EXPECT = {"steps": 4, "samples": 5 * 16, "phases": {"train": 4, "validation": 1}}
import torch
from torch import nn

torch.manual_seed(0)


class DLRM(nn.Module):
    def __init__(s):
        super().__init__()
        s.bags = nn.ModuleList(nn.EmbeddingBag(100 * (i + 1), 8, mode="sum", sparse=True) for i in range(3))
        s.bot = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 8))
        s.top = nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(s, dense, idx, off):
        d = s.bot(dense)
        e = [b(i, o) for b, i, o in zip(s.bags, idx, off)]
        t = torch.stack([d] + e, 1)
        z = torch.bmm(t, t.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, -1)
        return s.top(torch.cat([d, z[:, i, j]], 1))


m = DLRM()
o1 = torch.optim.SparseAdam(list(m.bags.parameters()))
o2 = torch.optim.Adagrad([*m.bot.parameters(), *m.top.parameters()])


def batch():
    return (
        torch.randn(16, 13),
        [torch.randint(100, (48,)) for _ in range(3)],
        [torch.arange(0, 48, 3) for _ in range(3)],
    )


for _ in range(4):
    nn.functional.binary_cross_entropy_with_logits(m(*batch()).squeeze(1), torch.rand(16)).backward()
    o1.step()
    o2.step()
    o1.zero_grad()
    o2.zero_grad()
m.eval()
with torch.inference_mode():
    m(*batch())
