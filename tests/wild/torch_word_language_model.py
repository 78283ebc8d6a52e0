"""torch's word_language_model/main.py: an LSTM, time before batch, with evaluation"""
NEEDS = ["torch"]
EXPECT = {
    "steps": 3,
    "tokens": 3 * 35 * 5 + 2 * 35 * 5,
    "samples": 3 * 5 + 2 * 5,
    "phases": {"train": 3, "validation": 2},
}

import torch
from torch import nn


class RNNModel(nn.Module):
    def __init__(self, ntoken=200, ninp=24, nhid=24):
        super().__init__()
        self.drop, self.encoder, self.rnn, self.decoder = (
            nn.Dropout(0.2),
            nn.Embedding(ntoken, ninp),
            nn.LSTM(ninp, nhid, 2, dropout=0.2),
            nn.Linear(nhid, ntoken),
        )

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        return torch.log_softmax(self.decoder(self.drop(output)).view(-1, 200), dim=1), hidden


torch.manual_seed(0)
model, criterion = RNNModel(), nn.NLLLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
for _ in range(3):
    hidden = (torch.zeros(2, 5, 24), torch.zeros(2, 5, 24))
    model.zero_grad()
    output, hidden = model(torch.randint(200, (35, 5)), hidden)
    criterion(output, torch.randint(200, (175,))).backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    hidden = (torch.zeros(2, 5, 24), torch.zeros(2, 5, 24))
    for _ in range(2):
        output, hidden = model(torch.randint(200, (35, 5)), hidden)
        criterion(output, torch.randint(200, (175,)))
