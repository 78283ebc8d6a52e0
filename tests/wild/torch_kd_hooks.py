"""A perceptual loss: features by forward hooks through a frozen net"""

NEEDS = ["torch"]
EXPECT = {"steps": 4, "phases": {"train": 4, "forward": 4}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)
st = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1))
vgg = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3)).eval().requires_grad_(False)
f = {}
vgg[1].register_forward_hook(lambda m, i, o: f.__setitem__("x", o))
opt = torch.optim.Adam(st.parameters())
for _ in range(4):
    x = torch.randn(4, 3, 8, 8)
    with torch.no_grad():
        vgg(x)
        want = f["x"]
    vgg(st(x))
    F.mse_loss(f["x"], want).backward()
    opt.step()
    opt.zero_grad()
