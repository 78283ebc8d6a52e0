"""SetFit: pairs of sentences train the body, a logistic regression is the head"""
NEEDS = ["setfit", "datasets"]
EXPECT = {"steps": 8, "phases": ["forward", "train"]}

import tempfile

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, models
from setfit import SetFitModel, Trainer, TrainingArguments
from sklearn.linear_model import LogisticRegression
from transformers import BertConfig, BertModel, BertTokenizerFast

torch.manual_seed(0)
folder = tempfile.mkdtemp()
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "nice", "poor", "the", "is"]
with open(f"{folder}/vocab.txt", "w") as file:
    file.write("\n".join(words))
BertTokenizerFast(f"{folder}/vocab.txt").save_pretrained(folder)
BertModel(BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                     intermediate_size=32, max_position_embeddings=32)).save_pretrained(folder)
body = models.Transformer(folder)
model = SetFitModel(model_body=SentenceTransformer(modules=[body, models.Pooling(body.get_word_embedding_dimension())]),
                    model_head=LogisticRegression())
texts = ["the film is good", "the film is nice", "the film is bad", "the film is poor"] * 2
Trainer(model=model, train_dataset=Dataset.from_dict({"text": texts, "label": [1, 1, 0, 0] * 2}),
        args=TrainingArguments(batch_size=4, num_epochs=1, num_iterations=2, output_dir=f"{folder}/out",
                               report_to="none")).train()
model.predict(["the film is nice"])
