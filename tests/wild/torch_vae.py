"""torch's vae/main.py: an autoencoder, tested and sampled from after each epoch"""
NEEDS = ["torch"]
EXPECT = {"steps": 6, "tokens": None, "phases": {"train": 6, "validation": 4, "forward": 2}}

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(64, 40), nn.Linear(40, 8), nn.Linear(40, 8)
        self.fc3, self.fc4 = nn.Linear(8, 40), nn.Linear(40, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    return BCE - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


torch.manual_seed(0)
train = DataLoader(torch.rand(48, 1, 8, 8), batch_size=16, shuffle=True)
test = DataLoader(torch.rand(32, 1, 8, 8), batch_size=16)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    model.train()
    for data in train:
        optimizer.zero_grad()
        loss = loss_function(*((lambda r: (r[0], data, r[1], r[2]))(model(data))))
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for data in test:
            recon, mu, logvar = model(data)
            loss_function(recon, data, mu, logvar).item()
    with torch.no_grad():
        model.decode(torch.randn(4, 8))
