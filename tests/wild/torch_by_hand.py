"""torch's own tutorial: parameters updated by hand, no optimizer"""
NEEDS = ["torch"]
EXPECT = {"steps": 5, "phases": ["train"]}

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
for _ in range(5):
    loss = (model(torch.randn(16, 32)) - 1).pow(2).mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for param in model.parameters():
            param -= 1e-2 * param.grad
