"""accelerate's debug_launcher: two processes, accumulation, and metrics gathered from both"""

NEEDS = ["accelerate"]
EXPECT = {"steps": 2, "phases": {"train": 8, "validation": 4}}
ALONE = False
WHY = "the ranks are processes of their own"

import torch
from accelerate import Accelerator, debug_launcher
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 16), torch.randint(4, (64,)))
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader, held_out = accelerator.prepare(
        model, optimizer, DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)
    )
    model.train()
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    for x, y in held_out:
        with torch.no_grad():
            guess = model(x).argmax(-1)
        accelerator.gather_for_metrics((guess, y))


if __name__ == "__main__":
    debug_launcher(train, num_processes=2)
