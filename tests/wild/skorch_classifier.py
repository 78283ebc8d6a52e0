"""skorch's NeuralNetClassifier with its own validation split"""
NEEDS = ["skorch"]
EXPECT = {"steps": 2 * 5, "phases": {"train": 10, "validation": 2 * 2}}

import numpy
import torch
from skorch import NeuralNetClassifier
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2), nn.Softmax(dim=-1))
x = numpy.random.default_rng(0).standard_normal((100, 20), dtype=numpy.float32)
NeuralNetClassifier(net, max_epochs=2, batch_size=16, verbose=0).fit(x, (x[:, 0] > 0).astype(numpy.int64))
