"""MONAI's UNet with a Dice loss, validated by its sliding window: the last batch of windows is small"""
NEEDS = ["monai"]
EXPECT = {"steps": 3, "tokens": None, "samples": 3 * 2 + 9, "phases": {"train": 3, "validation": 5}}

import torch
from monai.inferers import sliding_window_inference
from monai.losses import DiceLoss
from monai.networks.nets import UNet

torch.manual_seed(0)
net = UNet(spatial_dims=2, in_channels=1, out_channels=1, channels=(4, 8, 16), strides=(2, 2))
optimizer, loss = torch.optim.Adam(net.parameters()), DiceLoss(sigmoid=True)
for _ in range(3):
    optimizer.zero_grad()
    loss(net(torch.rand(2, 1, 32, 32)), (torch.rand(2, 1, 32, 32) > 0.5).float()).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    sliding_window_inference(torch.rand(1, 1, 64, 64), (32, 32), 2, net)
