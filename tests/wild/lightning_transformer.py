"""Lightning's own demo: an encoder-decoder whose two inputs share a table"""
NEEDS = ["lightning"]
EXPECT = {"steps": 6, "tokens": 2 * 24 * 12, "samples": 24, "phases": {"train": 6}}

import lightning
import torch
from lightning.pytorch.demos import LightningTransformer, Transformer
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Demo(LightningTransformer):
    def __init__(self):
        super().__init__(vocab_size=100)
        self.model = Transformer(vocab_size=100, ninp=32, nhead=2, nhid=32, nlayers=2)

    def prepare_data(self):
        pass

    def train_dataloader(self):
        ids = torch.randint(0, 100, (24, 12))
        return DataLoader(TensorDataset(ids, ids), batch_size=4)


lightning.Trainer(max_epochs=1, enable_checkpointing=False, logger=False, enable_progress_bar=False,
                  accelerator="cpu").fit(Demo())
