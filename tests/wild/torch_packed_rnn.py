"""A GRU classifier on packed sequences of unequal length"""
NEEDS = ["torch"]
EXPECT = {"steps": 3, "phases": ["train", "validation"]}

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.rnn, self.head = nn.Embedding(50, 16), nn.GRU(16, 24, batch_first=True), nn.Linear(24, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.table(x), lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.rnn(packed)[1][-1])


model = Classifier()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    lengths = torch.randint(2, 9, (6,))
    loss = nn.functional.cross_entropy(model(torch.randint(1, 50, (6, 8)), lengths), torch.randint(2, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    model(torch.randint(1, 50, (6, 8)), torch.randint(2, 9, (6,)))
