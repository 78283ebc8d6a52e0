"""Pyro's SVI: a variational autoencoder, its guide and its model"""
NEEDS = ["pyro"]
EXPECT = {"steps": 5, "tokens": None, "samples": 5 * 8, "phases": {"train": 5}}

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import Adam
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.mean, self.scale = nn.Linear(20, 16), nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        return self.mean(hidden), torch.exp(self.scale(hidden))


encoder, decoder = Encoder(), nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 20), nn.Sigmoid())


def model(x):
    pyro.module("decoder", decoder)
    with pyro.plate("data", x.shape[0]):
        z = pyro.sample("z", dist.Normal(torch.zeros(x.shape[0], 4), 1.0).to_event(1))
        pyro.sample("x", dist.Bernoulli(decoder(z)).to_event(1), obs=x)


def guide(x):
    pyro.module("encoder", encoder)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("z", dist.Normal(*encoder(x)).to_event(1))


svi = SVI(model, guide, Adam({"lr": 1e-3}), Trace_ELBO())
for _ in range(5):
    svi.step((torch.rand(8, 20) > 0.5).float())
