"""torch's neural style tutorial: LBFGS changes a picture, a frozen net looks at it"""
NEEDS = ["torch"]
EXPECT = {"steps": 3, "tokens": None, "phases": {"train": 9, "forward": 1}}

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3)).eval().requires_grad_(False)
target, picture = net(torch.randn(1, 3, 16, 16)).detach(), torch.randn(1, 3, 16, 16).requires_grad_(True)
optimizer, runs = torch.optim.LBFGS([picture], max_iter=3), [0]
while runs[0] < 9:

    def closure():
        with torch.no_grad():
            picture.clamp_(0, 1)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(picture), target)
        loss.backward()
        runs[0] += 1
        return loss

    optimizer.step(closure)
