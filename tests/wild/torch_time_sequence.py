"""torch's time_sequence_prediction/train.py: two LSTM cells, LBFGS calls its closure many times a step"""
NEEDS = ["torch"]
EXPECT = {"steps": 3, "tokens": None, "phases": {"train": 15, "forward": 3}}

import torch
from torch import nn, optim


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 16), nn.LSTMCell(16, 16), nn.Linear(16, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t, c_t = (torch.zeros(input.size(0), 16, dtype=torch.double) for _ in range(2))
        h_t2, c_t2 = (torch.zeros(input.size(0), 16, dtype=torch.double) for _ in range(2))
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for _ in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


torch.manual_seed(0)
data = torch.sin(torch.arange(20).double()[None] / 5 + torch.randn(10, 1).double())
input, target, test_input, test_target = data[3:, :-1], data[3:, 1:], data[:3, :-1], data[:3, 1:]
seq = Sequence().double()
criterion = nn.MSELoss()
optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=5)
for i in range(3):
    def closure():
        optimizer.zero_grad()
        loss = criterion(seq(input), target)
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        criterion(seq(test_input, future=5)[:, :-5], test_target).item()
