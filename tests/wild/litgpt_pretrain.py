"""litgpt's GPT and its chunked loss, with Lightning Fabric"""
NEEDS = ["litgpt"]
EXPECT = {"steps": 3, "tokens": 3 * 2 * 16, "phases": {"train": 3}}

import lightning
import torch
from litgpt import GPT, Config
from litgpt.utils import chunked_cross_entropy

fabric = lightning.Fabric(accelerator="cpu", devices=1)
fabric.seed_everything(0, verbose=False)
model = GPT(Config(n_layer=2, n_embd=32, n_head=4, n_query_groups=2, vocab_size=96, block_size=32, padded_vocab_size=96,
                   intermediate_size=64, mlp_class_name="LLaMAMLP", norm_class_name="RMSNorm", rotary_percentage=1.0))
model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters()))
for _ in range(3):
    ids = torch.randint(0, 96, (2, 17))
    loss = chunked_cross_entropy(model(ids[:, :-1]), ids[:, 1:], chunk_size=8)
    fabric.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
