"""sentence-transformers' trainer: pairs, each against the others of its batch"""
NEEDS = ["sentence_transformers", "datasets"]
EXPECT = {"steps": 2, "phases": {"train": 4}}

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from sentence_transformers.models import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

torch.manual_seed(0)
words = {word: index for index, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + [f"w{i}" for i in range(92)])}
plain = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
plain.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="[PAD]", unk_token="[UNK]").save_pretrained("bert")
BertModel(BertConfig(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, vocab_size=96,
                     max_position_embeddings=64)).save_pretrained("bert")
inner = Transformer("bert")
model = SentenceTransformer(modules=[inner, Pooling(32)], device="cpu")
rows = Dataset.from_list([{"anchor": f"w{i} w2 w3", "positive": f"w{i} w4"} for i in range(8)])
options = SentenceTransformerTrainingArguments(output_dir="out", max_steps=2, per_device_train_batch_size=4,
                                               report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True)
SentenceTransformerTrainer(
    model=model, args=options, train_dataset=rows, loss=MultipleNegativesRankingLoss(model)
).train()
