"""Three trainings that need nothing but torch: `python programs.py NAME` trains, and prints the FLOPs by hand.

A product of m×k by k×n is 2·m·k·n. Training computes three of that size: forward, the weight's gradient and the
input's gradient. The first layer's input needs no gradient, so its product counts twice.
"""

import sys

STEPS = 3


def mlp(torch):
    batch, widths = 32, [48, 64, 40, 10]
    layers = [torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:])]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.GELU(), layers[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.randn(batch, widths[0])), torch.randint(10, (batch,)))
        loss.backward()
        optimizer.step()
    products = [2 * batch * a * b for a, b in zip(widths, widths[1:])]
    return 2 * products[0] + 3 * sum(products[1:])


def attention(torch):
    """A transformer block in bfloat16 by autocast, with attention written out."""
    batch, length, width, heads, words = 2, 16, 32, 4, 100
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.norm = nn.Embedding(words, width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.head = nn.Linear(width, words)

        def forward(self, tokens):
            x = self.table(tokens)
            q, k, v = (
                part.view(batch, length, heads, width // heads).transpose(1, 2)
                for part in self.qkv(self.norm(x)).chunk(3, dim=-1)
            )
            weights = torch.softmax(q @ k.transpose(-1, -2) / (width // heads) ** 0.5, dim=-1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
            return self.head(x + self.down(nn.functional.silu(self.up(x))))

    model = Block()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        tokens = torch.randint(words, (batch, length))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(tokens)
        torch.nn.functional.cross_entropy(logits.float().view(-1, words), tokens.view(-1)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    linear = 2 * batch * length * (width * 3 * width + width * width + 2 * 4 * width * width + width * words)
    return 3 * (linear + 2 * 2 * batch * length * length * width)


def convolution(torch):
    """Two convolutions. The second has a stride and groups, and is recomputed, which is work of the hardware and not of
    the model."""
    batch, side = 4, 16
    nn = torch.nn
    first, second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=2)
    head = nn.Linear(16, 5)
    parameters = [*first.parameters(), *second.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    for _ in range(STEPS):
        x = torch.relu(first(torch.randn(batch, 3, side, side)))
        x = torch.utils.checkpoint.checkpoint(lambda y: torch.relu(second(y)), x, use_reentrant=False)
        head(x.mean(dim=(2, 3))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    a = 2 * batch * side * side * 8 * 3 * 9
    b = 2 * batch * (side // 2) ** 2 * 16 * (8 // 2) * 9
    return 2 * a + 3 * b + 3 * 2 * batch * 16 * 5


PROGRAMS = {"mlp": mlp, "attention": attention, "convolution": convolution}

if __name__ == "__main__":
    import torch
    import torch.utils.checkpoint

    torch.manual_seed(0)
    print("by hand", STEPS * PROGRAMS[sys.argv[1]](torch))
