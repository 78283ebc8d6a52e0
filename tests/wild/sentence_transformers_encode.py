"""sentence-transformers: modules put together by hand, encode and one step of training"""
NEEDS = ["sentence_transformers", "transformers"]
EXPECT = {"steps": 1, "phases": ["forward", "train"]}

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling
from torch import nn
from transformers import BertConfig, BertModel

torch.manual_seed(0)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = BertModel(
            BertConfig(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, vocab_size=120)
        )

    def forward(self, features):
        features["token_embeddings"] = self.bert(
            features["input_ids"], attention_mask=features["attention_mask"]
        ).last_hidden_state
        return features


model = SentenceTransformer(modules=[Bert(), Pooling(32)], device="cpu")


def features():
    return {"input_ids": torch.randint(0, 120, (4, 10)), "attention_mask": torch.ones(4, 10, dtype=torch.long)}


with torch.no_grad():
    model(features())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(features())["sentence_embedding"].sum().backward()
optimizer.step()
