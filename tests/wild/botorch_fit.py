"""BoTorch fits a Gaussian process with scipy's optimizer: steps without torch.optim"""
NEEDS = ["botorch"]
EXPECT = {"tokens": None}

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
x = torch.rand(10, 2, dtype=torch.double)
process = SingleTaskGP(x, x.sin().sum(-1, keepdim=True))
fit_gpytorch_mll(ExactMarginalLogLikelihood(process.likelihood, process), optimizer_kwargs={"options": {"maxiter": 5}})
