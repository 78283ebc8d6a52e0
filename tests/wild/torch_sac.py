"""Soft actor-critic by hand: three optimizers, target networks, an actor that acts"""
NEEDS = ["torch"]
EXPECT = {"steps": 5, "tokens": None, "phases": ["forward", "train"]}

import copy

import torch
from torch import nn

torch.manual_seed(0)


def net(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.ReLU(), nn.Linear(32, o))


actor, q1, q2 = net(4, 2), net(6, 1), net(6, 1)
t1, t2 = copy.deepcopy(q1), copy.deepcopy(q2)
log_alpha = torch.zeros(1, requires_grad=True)
oa = torch.optim.Adam(actor.parameters())
oq = torch.optim.Adam([*q1.parameters(), *q2.parameters()])
ol = torch.optim.Adam([log_alpha])
for step in range(5):
    for _ in range(3):
        with torch.no_grad():
            actor(torch.randn(1, 4))
    s, s2, r = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16, 1)
    a = torch.tanh(torch.randn(16, 2))
    with torch.no_grad():
        a2 = torch.tanh(actor(s2))
        y = r + 0.99 * torch.min(t1(torch.cat([s2, a2], 1)), t2(torch.cat([s2, a2], 1)))
    oq.zero_grad()
    both = torch.cat([s, a], 1)
    (nn.functional.mse_loss(q1(both), y) + nn.functional.mse_loss(q2(both), y)).backward()
    oq.step()
    pi = torch.tanh(actor(s))
    oa.zero_grad()
    (-torch.min(q1(torch.cat([s, pi], 1)), q2(torch.cat([s, pi], 1))).mean()).backward()
    oa.step()
    ol.zero_grad()
    (log_alpha * pi.detach().mean()).sum().backward()
    ol.step()
    with torch.no_grad():
        for p, t in zip([*q1.parameters(), *q2.parameters()], [*t1.parameters(), *t2.parameters()]):
            t.mul_(0.995).add_(p, alpha=0.005)
