"""Lightning's BoringModel: one product, with its sanity check and validation"""
NEEDS = ["lightning"]
EXPECT = {"steps": 6, "tokens": None, "samples": 11, "phases": {"train": 6, "validation": 5}}

import lightning
from lightning.pytorch.demos.boring_classes import BoringModel

lightning.Trainer(max_epochs=1, limit_train_batches=6, limit_val_batches=3, enable_checkpointing=False, logger=False,
                  enable_progress_bar=False, accelerator="cpu").fit(BoringModel())
