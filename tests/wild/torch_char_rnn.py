"""torch's char-RNN tutorial: an RNN by hand, one name at a time, letter by letter, one-hot, updated by hand"""

NEEDS = ["torch"]
EXPECT = {"steps": 4, "phases": {"train": 4, "validation": 1}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)


class RNN(nn.Module):
    def __init__(s):
        super().__init__()
        s.i, s.h, s.o = nn.Linear(20, 16), nn.Linear(16, 16), nn.Linear(16, 5)

    def forward(s, x, h):
        h = torch.tanh(s.i(x) + s.h(h))
        return F.log_softmax(s.o(h), 1), h


class Whole(nn.Module):
    def __init__(s):
        super().__init__()
        s.r = RNN()

    def forward(s, line):
        h = torch.zeros(1, 16)
        for x in line:
            o, h = s.r(x, h)
        return o


m = Whole()


def line():
    return torch.eye(20)[torch.randint(20, (6,))].unsqueeze(1)


for _ in range(4):
    m.zero_grad()
    F.nll_loss(m(line()), torch.randint(5, (1,))).backward()
    for p in m.parameters():
        p.data.add_(p.grad.data, alpha=-0.005)
m.eval()
with torch.no_grad():
    m(line())
