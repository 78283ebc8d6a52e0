"""torch's seq2seq tutorial: a GRU and a decoder with attention, step by step; then greedy"""

NEEDS = ["torch"]
EXPECT = {"steps": 3, "tokens": 169, "phases": {"train": 21, "prefill": 1, "decode": 5, "forward": 1}}
import random, torch
from torch import nn

random.seed(0)
torch.manual_seed(0)


class Enc(nn.Module):
    def __init__(s, n, h):
        super().__init__()
        s.e = nn.Embedding(n, h)
        s.g = nn.GRU(h, h, batch_first=True)

    def forward(s, x):
        return s.g(s.e(x))


class Dec(nn.Module):
    def __init__(s, n, h):
        super().__init__()
        s.e = nn.Embedding(n, h)
        s.wa, s.ua, s.va = nn.Linear(h, h), nn.Linear(h, h), nn.Linear(h, 1)
        s.g = nn.GRU(2 * h, h, batch_first=True)
        s.o = nn.Linear(h, n)

    def forward(s, enc, hid, target=None):
        x = torch.zeros(enc.size(0), 1, dtype=torch.long)
        outs = []
        for i in range(6):
            q = hid.permute(1, 0, 2)
            w = torch.softmax(s.va(torch.tanh(s.wa(q) + s.ua(enc))).squeeze(2).unsqueeze(1), -1)
            o, hid = s.g(torch.cat((s.e(x), torch.bmm(w, enc)), 2), hid)
            o = s.o(o)
            outs.append(o)
            x = target[:, i].unsqueeze(1) if target is not None else o.topk(1)[1].squeeze(-1).detach()
        return torch.cat(outs, 1)


e, d = Enc(40, 16), Dec(50, 16)
oe, od = torch.optim.Adam(e.parameters()), torch.optim.Adam(d.parameters())
for _ in range(3):
    x, y = torch.randint(40, (4, 7)), torch.randint(50, (4, 6))
    oe.zero_grad()
    od.zero_grad()
    out, h = e(x)
    nn.functional.nll_loss(torch.log_softmax(d(out, h, y), -1).flatten(0, 1), y.flatten()).backward()
    oe.step()
    od.step()
e.eval()
d.eval()
with torch.no_grad():
    out, h = e(torch.randint(40, (1, 7)))
    d(out, h)
