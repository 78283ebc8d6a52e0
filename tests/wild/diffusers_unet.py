"""diffusers' UNet2DModel, training"""
NEEDS = ["diffusers"]
EXPECT = {"steps": 2, "tokens": None, "phases": {"train": 2}}

import torch
from diffusers import DDPMScheduler, UNet2DModel

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=16,
    in_channels=3,
    out_channels=3,
    layers_per_block=1,
    block_out_channels=(32, 32),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=8,
)
scheduler, optimizer = DDPMScheduler(), torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(2):
    clean, noise, steps = torch.randn(2, 3, 16, 16), torch.randn(2, 3, 16, 16), torch.randint(0, 1000, (2,))
    torch.nn.functional.mse_loss(model(scheduler.add_noise(clean, noise, steps), steps).sample, noise).backward()
    optimizer.step()
    optimizer.zero_grad()
