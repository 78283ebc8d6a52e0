"""A ViT classifier: no tokens are made up"""
NEEDS = ["transformers"]
EXPECT = {"steps": 2, "tokens": None, "samples": 8, "phases": {"train": 2}}

import torch
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(0)
model = ViTForImageClassification(
    ViTConfig(
        num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, image_size=32, patch_size=8
    )
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(pixel_values=torch.randn(4, 3, 32, 32), labels=torch.randint(0, 2, (4,))).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
