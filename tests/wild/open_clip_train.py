"""open_clip's CLIP and its loss: an image tower and a text tower"""
NEEDS = ["open_clip", "torchvision"]
EXPECT = {"steps": 2, "tokens": 2 * 3 * 77, "phases": ["train"]}

import torch

# torchvision's wheel is made for CUDA, so its operators cannot be loaded here. They are not needed.
if torch.version.cuda is None:
    for each in ("nms", "qnms"):
        torch.library.define(f"torchvision::{each}", "(Tensor a, Tensor b, float c) -> Tensor")
from open_clip import CLIP, ClipLoss

torch.manual_seed(0)
model = CLIP(32, {"image_size": 32, "layers": 2, "width": 64, "head_width": 16, "patch_size": 8},
             {"context_length": 77, "vocab_size": 512, "width": 32, "heads": 4, "layers": 2})
loss, optimizer = ClipLoss(), torch.optim.AdamW(model.parameters())
for _ in range(2):
    loss(*model(torch.randn(3, 3, 32, 32), torch.randint(0, 512, (3, 77)))).backward()
    optimizer.step()
    optimizer.zero_grad()
