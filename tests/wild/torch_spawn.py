"""Hogwild: three processes by spawn train shared parameters, the first one looks"""

NEEDS = ["torch"]
ALONE = False
WHY = "the workers are processes of their own"
EXPECT = {"phases": {"train": 12, "forward": 2}}
import torch, torch.multiprocessing as mp
from torch import nn


def train(rank, m):
    torch.manual_seed(rank)
    opt = torch.optim.SGD(m.parameters(), lr=0.01)
    for _ in range(4):
        opt.zero_grad()
        nn.functional.cross_entropy(m(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
        opt.step()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    m = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    m.share_memory()
    ps = [mp.Process(target=train, args=(r, m)) for r in range(3)]
    [p.start() for p in ps]
    [p.join() for p in ps]
    m.eval()
    with torch.no_grad():
        for _ in range(2):
            m(torch.randn(8, 16))
