"""Ray Train's TorchTrainer: two workers with DDP on the CPU"""
NEEDS = ["ray"]
EXPECT = {"steps": 3, "phases": {"train": 6}}
ALONE = False  # the workers are other processes
WHY = "the workers are processes of their own"

import ray
import ray.train.torch
from ray.train import RunConfig, ScalingConfig


def loop():
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    import os

    ray.init(num_cpus=2, include_dashboard=False)
    trainer = ray.train.torch.TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2),
                                           run_config=RunConfig(storage_path=os.path.abspath("ray")))
    trainer.fit()
