"""torch's DQN tutorial: replay memory, a target net, epsilon-greedy acting one state at a time"""

NEEDS = ["torch"]
EXPECT = {"steps": 8, "phases": {"train": 8, "forward": 31}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)
import random, collections

random.seed(0)


def net():
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))


p, t = net(), net()
t.load_state_dict(p.state_dict())
opt = torch.optim.AdamW(p.parameters(), amsgrad=True)
mem = collections.deque(maxlen=100)
s = torch.randn(1, 4)
for i in range(23):
    with torch.no_grad():
        a = p(s).max(1).indices.view(1, 1)
    n = torch.randn(1, 4)
    mem.append((s, a, n, torch.randn(1)))
    s = n
    if len(mem) < 16:
        continue
    S, A, N, R = (torch.cat(c) for c in zip(*random.sample(mem, 16)))
    q = p(S).gather(1, A)
    with torch.no_grad():
        v = t(N).max(1).values
    F.smooth_l1_loss(q, (v * 0.99 + R).unsqueeze(1)).backward()
    nn.utils.clip_grad_value_(p.parameters(), 100)
    opt.step()
    opt.zero_grad()
    sd = t.state_dict()
    for k, w in p.state_dict().items():
        sd[k] = w * 0.01 + sd[k] * 0.99
    t.load_state_dict(sd)
