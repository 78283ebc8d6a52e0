"""fastai's Learner with its own optimizer: one cycle, validated after each epoch"""
NEEDS = ["fastai", "torchvision"]
EXPECT = {"steps": 2 * 4, "samples": 2 * (64 + 32), "phases": {"train": 8, "validation": 4}}

import torch

# torchvision's wheel is made for CUDA, so its operators cannot be loaded here. They are not needed.
if torch.version.cuda is None:
    for each in ("nms", "qnms"):
        torch.library.define(f"torchvision::{each}", "(Tensor a, Tensor b, float c) -> Tensor")
from fastai.basics import DataLoaders, Learner, accuracy
from fastai.callback.all import *
from torch import nn
from torch.utils.data import TensorDataset

torch.manual_seed(0)
x, y = torch.randn(96, 20), torch.randint(2, (96,))
data = DataLoaders.from_dsets(TensorDataset(x[:64], y[:64]), TensorDataset(x[64:], y[64:]), bs=16, device="cpu")
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2))
learner = Learner(data, net, loss_func=nn.CrossEntropyLoss(), metrics=accuracy)
with learner.no_bar(), learner.no_logging():
    learner.fit_one_cycle(2)
