"""Distillation by hand: a student, its teacher, and an average of the student that is evaluated"""
NEEDS = ["torch"]
EXPECT = {"steps": 4, "phases": ["forward", "train"]}

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10)).eval()
student = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
average = copy.deepcopy(student).eval().requires_grad_(False)
optimizer = torch.optim.Adam(student.parameters())
for step in range(4):
    x, y = torch.randn(8, 16), torch.randint(10, (8,))
    with torch.no_grad():
        soft = F.softmax(teacher(x) / 2, -1)
    logits = student(x)
    loss = F.cross_entropy(logits, y) + F.kl_div(F.log_softmax(logits / 2, -1), soft, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mean, new in zip(average.parameters(), student.parameters()):
            mean.lerp_(new, 0.1)
        if step % 2:
            average(torch.randn(8, 16))
