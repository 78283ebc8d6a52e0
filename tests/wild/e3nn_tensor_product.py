"""e3nn: an equivariant tensor product and a linear layer"""
NEEDS = ["e3nn"]
EXPECT = {"steps": 3, "tokens": None, "samples": 3 * 6, "phases": {"train": 3}}

import torch
from e3nn import o3

torch.manual_seed(0)
kinds = o3.Irreps("8x0e+4x1o")
product, last = o3.FullyConnectedTensorProduct(kinds, "1x0e+1x1o", kinds), o3.Linear(kinds, "4x0e")
optimizer = torch.optim.Adam([*product.parameters(), *last.parameters()])
for _ in range(3):
    last(product(kinds.randn(6, -1), o3.Irreps("1x0e+1x1o").randn(6, -1))).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
