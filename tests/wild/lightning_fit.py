"""Lightning's Trainer.fit with its sanity check and validation"""
NEEDS = ["lightning"]
EXPECT = {"steps": 4, "phases": {"train": 4, "validation": 6}}

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.log("loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(0)
data = TensorDataset(torch.randn(32, 16), torch.randint(0, 4, (32,)))
lightning.Trainer(
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    accelerator="cpu",
    barebones=False,
    enable_model_summary=False,
).fit(Model(), DataLoader(data, batch_size=8), DataLoader(data, batch_size=8))
