"""Small models, and what they cost by their shapes alone."""

import torch
from torch import nn


class Block(nn.Module):
    """One transformer block with attention as torch fuses it."""

    def __init__(self, width, heads, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """`checkpoint`: None, "reentrant" or "plain"."""

    def __init__(self, layers=2, width=32, heads=4, vocabulary=64, checkpoint=None):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(32, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.checkpoint = checkpoint

    def forward(self, ids):
        from torch.utils.checkpoint import checkpoint

        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            if self.checkpoint is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.checkpoint == "reentrant")
        return self.head(x)


def gpt_flop(batch, length, layers=2, width=32, heads=4, vocabulary=64):
    """Forward: linears 2·tokens·parameters, causal attention 4·pairs·width."""
    tokens = batch * length
    linears = 2 * tokens * (layers * (3 + 1 + 4 + 4) * width * width + width * vocabulary)
    scores = 4 * batch * (length * (length + 1) // 2) * width * layers
    return linears, scores


def gpt_step(model, batch=3, length=16, vocabulary=64):
    ids = torch.randint(0, vocabulary, (batch, length))
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    return loss
