"""An average of the weights by hand, clipping, a schedule; the average is evaluated"""

NEEDS = ["torch"]
EXPECT = {"steps": 6, "phases": {"train": 6, "forward": 3}}
import copy, torch
from torch import nn

torch.manual_seed(0)
m = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
)
ema = copy.deepcopy(m).eval().requires_grad_(False)
opt = torch.optim.AdamW(m.parameters())
sch = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=6)
for i in range(6):
    nn.functional.cross_entropy(m(torch.randn(8, 3, 8, 8)), torch.randint(4, (8,)), label_smoothing=0.1).backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
    sch.step()
    opt.zero_grad(set_to_none=True)
    with torch.no_grad():
        for a, b in zip(ema.parameters(), m.parameters()):
            a.lerp_(b, 0.1)
        if i % 2:
            ema(torch.randn(8, 3, 8, 8))
