"""segmentation_models_pytorch's Unet with a Dice loss, train and validation"""
NEEDS = ["segmentation_models_pytorch", "torchvision"]
EXPECT = {"steps": 2, "samples": 2 * 2 + 2, "phases": {"train": 2, "validation": 1}}

import torch

# torchvision's wheel is made for CUDA, so its operators cannot be loaded here. They are not needed.
if torch.version.cuda is None:
    for each in ("nms", "qnms"):
        torch.library.define(f"torchvision::{each}", "(Tensor a, Tensor b, float c) -> Tensor")
import segmentation_models_pytorch

torch.manual_seed(0)
model = segmentation_models_pytorch.Unet("resnet18", encoder_weights=None, classes=1)
loss = segmentation_models_pytorch.losses.DiceLoss("binary")
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    loss(model(torch.randn(2, 3, 64, 64)), torch.randint(2, (2, 1, 64, 64)).float()).backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    loss(model(torch.randn(2, 3, 64, 64)), torch.randint(2, (2, 1, 64, 64)).float())
