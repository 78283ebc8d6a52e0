"""A Wasserstein GAN with gradient penalty: a second derivative, and a critic that steps thrice"""
NEEDS = ["torch"]
EXPECT = {"steps": 6, "tokens": None, "phases": ["train"]}

import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
D = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
g, d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for step in range(6):
    real, fake = torch.randn(8, 16), G(torch.randn(8, 8)).detach()
    e = torch.rand(8, 1)
    x = (e * real + (1 - e) * fake).requires_grad_()
    slope, = torch.autograd.grad(D(x).sum(), x, create_graph=True)
    loss = D(fake).mean() - D(real).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()
    d.zero_grad()
    loss.backward()
    d.step()
    if step % 3 == 2:
        g.zero_grad()
        (-D(G(torch.randn(8, 8))).mean()).backward()
        g.step()
