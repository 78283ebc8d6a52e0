"""captum: integrated gradients, saliency and ablation; gradients of the input train nothing"""

NEEDS = ["captum"]
EXPECT = {"steps": 0, "phases": {"train": 2, "forward": 17}}
import torch
from torch import nn
from captum.attr import IntegratedGradients, Saliency, FeatureAblation

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
x = torch.randn(8, 16)
IntegratedGradients(m).attribute(x, target=1, n_steps=10)
Saliency(m).attribute(x, target=1)
FeatureAblation(m).attribute(x, target=1)
