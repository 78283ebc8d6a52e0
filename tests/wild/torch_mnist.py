"""torch's mnist/main.py: convolutions and dropout, Adadelta with a schedule, tested after each epoch"""
NEEDS = ["torch"]
EXPECT = {"steps": 6, "tokens": None, "samples": 2 * (48 + 32), "phases": {"train": 6, "validation": 4}}

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3, 1), nn.Conv2d(8, 16, 3, 1)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(400, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = self.dropout2(F.relu(self.fc1(torch.flatten(x, 1))))
        return F.log_softmax(self.fc2(x), dim=1)


torch.manual_seed(0)
data = TensorDataset(torch.randn(80, 1, 14, 14), torch.randint(10, (80,)))
train = DataLoader(torch.utils.data.Subset(data, range(48)), batch_size=16, shuffle=True)
test = DataLoader(torch.utils.data.Subset(data, range(48, 80)), batch_size=16)
model = Net()
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
for epoch in range(2):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        loss = F.nll_loss(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in test:
            output = model(x)
            loss = F.nll_loss(output, y, reduction="sum").item()
            correct += output.argmax(dim=1, keepdim=True).eq(y.view_as(output.argmax(dim=1, keepdim=True))).sum().item()
    scheduler.step()
