"""timm's resnet10t, training and validation"""
NEEDS = ["timm", "torchvision"]
EXPECT = {"steps": 2, "tokens": None, "phases": {"train": 2, "validation": 1}}

import torch

# torchvision's wheel is made for CUDA, so its operators cannot be loaded here. They are not needed.
if torch.version.cuda is None:
    for each in ("nms", "qnms"):
        torch.library.define(f"torchvision::{each}", "(Tensor a, Tensor b, float c) -> Tensor")
import timm

torch.manual_seed(0)
model = timm.create_model("resnet10t", num_classes=5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    torch.nn.functional.cross_entropy(model(torch.randn(2, 3, 64, 64)), torch.randint(0, 5, (2,))).backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    model(torch.randn(2, 3, 64, 64))
