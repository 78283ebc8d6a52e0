"""torch's siamese_network/main.py: one network looks at two images, then compares"""
NEEDS = ["torch"]
EXPECT = {"steps": 3, "tokens": None, "samples": 3 * 8 + 8, "phases": {"train": 3, "validation": 1}}

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.Flatten())
        self.fc = nn.Sequential(nn.Linear(64 * 2, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, a, b):
        return torch.sigmoid(self.fc(torch.cat((self.cnn(a), self.cnn(b)), 1)))


torch.manual_seed(0)
data = TensorDataset(torch.rand(32, 1, 11, 11), torch.rand(32, 1, 11, 11), torch.randint(2, (32,)).float())
train = DataLoader(torch.utils.data.Subset(data, range(24)), batch_size=8)
test = DataLoader(torch.utils.data.Subset(data, range(24, 32)), batch_size=8)
model, criterion = Siamese(), nn.BCELoss()
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
model.train()
for a, b, y in train:
    optimizer.zero_grad()
    criterion(model(a, b).squeeze(), y).backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    for a, b, y in test:
        criterion(model(a, b).squeeze(), y).item()
