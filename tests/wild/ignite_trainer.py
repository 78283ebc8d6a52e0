"""ignite's supervised trainer and evaluator"""
NEEDS = ["ignite"]
EXPECT = {"steps": 2 * 4, "samples": 2 * 64 + 2 * 32, "phases": {"train": 8, "validation": 4}}

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2))
data = TensorDataset(torch.randn(64, 20), torch.randint(2, (64,)))
trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss())
evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy()})
held_out = DataLoader(TensorDataset(*data[:32]), batch_size=16)
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(held_out))
trainer.run(DataLoader(data, batch_size=16), max_epochs=2)
