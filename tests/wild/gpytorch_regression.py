"""gpytorch's exact Gaussian process: Cholesky, no layers"""
NEEDS = ["gpytorch"]
EXPECT = {"steps": 3}

import gpytorch
import torch


class Process(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


torch.manual_seed(0)
x = torch.linspace(0, 1, 40)
y, likelihood = torch.sin(x * 6), gpytorch.likelihoods.GaussianLikelihood()
model = Process(x, y, likelihood)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (-objective(model(x), y)).backward()
    optimizer.step()
