"""Lightning with strategy ddp: two processes on the CPU, with its sanity check and validation"""

NEEDS = ["lightning"]
ALONE = False
WHY = "the ranks are processes of their own"
EXPECT = {"steps": 2, "phases": {"train": 4, "validation": 8}}
import lightning, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(s):
        super().__init__()
        s.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def training_step(s, b, i):
        return nn.functional.cross_entropy(s.net(b[0]), b[1])

    def validation_step(s, b, i):
        s.log("l", nn.functional.cross_entropy(s.net(b[0]), b[1]), sync_dist=True)

    def configure_optimizers(s):
        return torch.optim.SGD(s.parameters(), lr=0.1)


if __name__ == "__main__":
    data = TensorDataset(torch.randn(32, 16), torch.randint(0, 4, (32,)))
    lightning.Trainer(
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        enable_model_summary=False,
    ).fit(Model(), DataLoader(data, batch_size=8), DataLoader(data, batch_size=8))
