"""HF datasets: a streaming IterableDataset with shuffle, map and loader workers"""

NEEDS = ["datasets"]
EXPECT = {"steps": 8, "tokens": 8 * 4 * 12, "phases": {"train": 8}}
import torch
from datasets import IterableDataset
from torch import nn
from torch.utils.data import DataLoader


def gen(shards):
    for s in shards:
        for i in range(8):
            yield {"text": f"{s} {i}"}


def tok(r):
    return {"ids": [(len(r["text"]) * 7 + j) % 64 for j in range(12)]}


if __name__ == "__main__":
    torch.manual_seed(0)
    ds = (
        IterableDataset.from_generator(gen, gen_kwargs={"shards": list(range(4))})
        .shuffle(seed=1, buffer_size=8)
        .map(tok, remove_columns=["text"])
        .with_format("torch")
    )
    e, h = nn.Embedding(64, 32), nn.Linear(32, 64)
    opt = torch.optim.AdamW([*e.parameters(), *h.parameters()])
    for b in DataLoader(ds, batch_size=4, num_workers=2):
        x = b["ids"]
        nn.functional.cross_entropy(h(e(x[:, :])).flatten(0, 1), x.flatten()).backward()
        opt.step()
        opt.zero_grad()
