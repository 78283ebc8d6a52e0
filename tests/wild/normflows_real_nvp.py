"""normflows: a Real NVP learns a density, then says how likely samples are"""
NEEDS = ["normflows"]
EXPECT = {"steps": 4, "tokens": None, "phases": {"train": 4, "validation": 1}}

import normflows
import torch

torch.manual_seed(0)
flows = []
for _ in range(4):
    flows.append(normflows.flows.AffineCouplingBlock(normflows.nets.MLP([1, 16, 16, 2], init_zeros=True)))
    flows.append(normflows.flows.Permute(2, mode="swap"))
model = normflows.NormalizingFlow(normflows.distributions.base.DiagGaussian(2), flows)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(4):
    optimizer.zero_grad()
    model.forward_kld(torch.randn(16, 2)).backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    model.log_prob(torch.randn(32, 2))
