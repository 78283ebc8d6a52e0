"""torch's dcgan/main.py: two networks, one of which trains through the other"""
NEEDS = ["torch"]
EXPECT = {"steps": 3, "tokens": None, "phases": ["train"]}

import torch
from torch import nn

torch.manual_seed(0)
netG = nn.Sequential(
    nn.ConvTranspose2d(16, 16, 4, 1, 0, bias=False),
    nn.BatchNorm2d(16),
    nn.ReLU(True),
    nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False),
    nn.Tanh(),
)
netD = nn.Sequential(
    nn.Conv2d(3, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True), nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Sigmoid()
)
criterion = nn.BCELoss()
optimizerD, optimizerG = (torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (netD, netG))
for _ in range(3):
    netD.zero_grad()
    criterion(netD(torch.randn(8, 3, 8, 8)).view(-1), torch.ones(8)).backward()
    fake = netG(torch.randn(8, 16, 1, 1))
    criterion(netD(fake.detach()).view(-1), torch.zeros(8)).backward()
    optimizerD.step()
    netG.zero_grad()
    criterion(netD(fake).view(-1), torch.ones(8)).backward()
    optimizerG.step()
