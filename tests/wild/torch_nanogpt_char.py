"""nanoGPT's character model (written as its train.py), more positions than characters, with estimate_loss"""
NEEDS = ["torch"]
EXPECT = {
    "steps": 6,
    "tokens": 6 * 4 * 32 + 4 * 4 * 32,
    "kinds": {"training": 768, "evaluation": 512, "prompt": 0, "generated": 0, "padded": 0},
    "phases": {"train": 6, "validation": 4},
}

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (
            t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).split(C, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(B, T, C)
        x = x + self.c_proj(y)
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocab_size=65, block_size=256, width=48):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, width), nn.Embedding(block_size, width)
        self.h, self.ln_f = nn.ModuleList(Block(width, 4) for _ in range(2)), nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(0, idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


torch.manual_seed(0)
data = torch.randint(65, (4096,))


def get_batch():
    ix = torch.randint(len(data) - 33, (4,))
    return torch.stack([data[i : i + 32] for i in ix]), torch.stack([data[i + 1 : i + 33] for i in ix])


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for iteration in range(6):
    if iteration % 3 == 0:
        model.eval()
        with torch.no_grad():
            for _ in range(2):
                model(*get_batch())
        model.train()
    _, loss = model(*get_batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
