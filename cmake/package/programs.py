"""Three training programs that know nothing of mfu, to try a wheel with. `python programs.py NAME` trains. With
`count`, the last line says how many FLOPs torch's own counter found in all steps."""

import sys

import torch
from torch import nn


def perceptron():
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))
    return model, lambda: torch.randn(16, 32), torch.optim.AdamW(model.parameters()), lambda x: model(x).square().mean()


def convolutions():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.Flatten(), nn.Linear(16 * 7 * 7, 10)
    )
    return (
        model,
        lambda: torch.randn(4, 3, 16, 16),
        torch.optim.SGD(model.parameters(), lr=0.01),
        lambda x: model(x).logsumexp(1).mean(),
    )


class Attention(nn.Module):
    def __init__(self, width=48, heads=4):
        super().__init__()
        self.heads, self.inner, self.outer = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.inner(x).chunk(3, -1))
        mixed = (q @ k.transpose(-2, -1) / 3).softmax(-1) @ v
        return x + self.outer(mixed.transpose(1, 2).reshape(batch, length, width))


def transformer():
    from torch.utils.checkpoint import checkpoint

    blocks, tokens, head = nn.ModuleList([Attention(), Attention()]), nn.Embedding(50, 48), nn.Linear(48, 50)
    model = nn.ModuleList([blocks, tokens, head])

    def loss(ids):
        x = tokens(ids)
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return nn.functional.cross_entropy(head(x).flatten(0, 1), ids.flatten())

    return model, lambda: torch.randint(0, 50, (4, 12)), torch.optim.Adam(model.parameters()), loss


def train(name, steps=5):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    _, data, optimizer, loss = {"perceptron": perceptron, "convolutions": convolutions, "transformer": transformer}[
        name
    ]()
    for _ in range(steps):
        optimizer.zero_grad()
        loss(data()).backward()
        optimizer.step()


if __name__ == "__main__":
    if "count" in sys.argv:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            train(sys.argv[1])
        print(counter.get_total_flops())
    else:
        train(sys.argv[1])
        print("trained with torch", torch.__version__)
