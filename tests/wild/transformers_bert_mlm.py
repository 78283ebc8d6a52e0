"""transformers' BERT learns to fill masks in, eager attention, rows of unequal length"""
NEEDS = ["transformers"]
EXPECT = {"steps": 2, "tokens": 2 * 3 * 10, "phases": {"train": 2}, "padded": 2 * (30 - 6)}

import torch
from transformers import BertConfig, BertForMaskedLM

torch.manual_seed(0)
model = BertForMaskedLM(BertConfig(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4,
                                   vocab_size=96, max_position_embeddings=32, attn_implementation="eager"))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    ids = torch.randint(5, 96, (3, 10))
    mask = torch.arange(10) < torch.tensor([[10], [6], [8]])
    labels = torch.where(torch.arange(10) < 2, ids, -100)  # two tokens of each row are to be predicted
    model(input_ids=ids, attention_mask=mask.long(), labels=labels).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
