"""Lightning's manual optimization: a GAN with two optimizers"""

NEEDS = ["lightning"]
EXPECT = {"steps": 4, "phases": {"train": 8}}
import lightning, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Gan(lightning.LightningModule):
    def __init__(s):
        super().__init__()
        s.automatic_optimization = False
        s.g = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
        s.d = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def training_step(s, batch, i):
        og, od = s.optimizers()
        z = torch.randn(8, 8)
        s.toggle_optimizer(og)
        loss = -s.d(s.g(z)).mean()
        og.zero_grad()
        s.manual_backward(loss)
        og.step()
        s.untoggle_optimizer(og)
        s.toggle_optimizer(od)
        loss = s.d(s.g(z).detach()).mean() - s.d(batch[0]).mean()
        od.zero_grad()
        s.manual_backward(loss)
        od.step()
        s.untoggle_optimizer(od)

    def configure_optimizers(s):
        return torch.optim.Adam(s.g.parameters()), torch.optim.Adam(s.d.parameters())


lightning.Trainer(
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    accelerator="cpu",
    enable_model_summary=False,
).fit(Gan(), DataLoader(TensorDataset(torch.randn(32, 16)), batch_size=8))
