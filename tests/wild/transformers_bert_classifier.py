"""A BERT classifier trained by hand: tokens without a language model's head"""
NEEDS = ["transformers"]
EXPECT = {"steps": 3, "tokens": 3 * 4 * 20, "samples": 12, "phases": {"train": 3}}

import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
model = BertForSequenceClassification(
    BertConfig(
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        vocab_size=120,
        max_position_embeddings=512,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    model(
        input_ids=torch.randint(0, 120, (4, 20)),
        attention_mask=torch.ones(4, 20, dtype=torch.long),
        labels=torch.randint(0, 2, (4,)),
    ).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
