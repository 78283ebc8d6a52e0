"""diffusers' DiTTransformer2DModel: class labels are no tokens"""
NEEDS = ["diffusers"]
EXPECT = {"steps": 3, "tokens": None, "phases": {"train": 3}}

import torch
from diffusers import DiTTransformer2DModel

torch.manual_seed(0)
model = DiTTransformer2DModel(
    num_attention_heads=2,
    attention_head_dim=16,
    in_channels=4,
    out_channels=4,
    num_layers=2,
    sample_size=8,
    patch_size=2,
    num_embeds_ada_norm=100,
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    out = model(
        torch.randn(2, 4, 8, 8), timestep=torch.randint(0, 100, (2,)), class_labels=torch.randint(0, 100, (2,))
    ).sample
    out.pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
