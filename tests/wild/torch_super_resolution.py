"""torch's super_resolution/main.py: sub-pixel convolutions, tested without leaving training mode"""
NEEDS = ["torch"]
EXPECT = {"steps": 6, "tokens": None, "phases": {"train": 6, "forward": 2}}

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.relu = nn.ReLU()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 5, 1, 2), nn.Conv2d(16, 16, 3, 1, 1)
        self.conv3, self.conv4 = nn.Conv2d(16, 8, 3, 1, 1), nn.Conv2d(8, factor**2, 3, 1, 1)
        self.pixel_shuffle = nn.PixelShuffle(factor)

    def forward(self, x):
        x = self.relu(self.conv3(self.relu(self.conv2(self.relu(self.conv1(x))))))
        return self.pixel_shuffle(self.conv4(x))


torch.manual_seed(0)
train = DataLoader(TensorDataset(torch.rand(12, 1, 8, 8), torch.rand(12, 1, 16, 16)), batch_size=4, shuffle=True)
test = DataLoader(TensorDataset(torch.rand(4, 1, 8, 8), torch.rand(4, 1, 16, 16)), batch_size=4)
model, criterion = Net(2), nn.MSELoss()
optimizer = optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for input, target in train:
        optimizer.zero_grad()
        loss = criterion(model(input), target)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for input, target in test:
            criterion(model(input), target).item()
