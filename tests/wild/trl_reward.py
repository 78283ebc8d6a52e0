"""TRL's RewardTrainer: a reward model learns which answer is better"""
NEEDS = ["trl", "datasets", "transformers"]
EXPECT = {"steps": 2, "phases": {"train": 2}}

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import RewardConfig, RewardTrainer

torch.manual_seed(0)
words = {word: index for index, word in enumerate(["<pad>", "<eos>", "<unk>"] + [f"w{i}" for i in range(93)])}
plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
config = LlamaConfig(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4,
                     num_key_value_heads=2, vocab_size=96, num_labels=1, pad_token_id=0)
rows = Dataset.from_list([{"chosen": f"w1 w{i} w5 w6", "rejected": f"w1 w7 w{i}"} for i in range(8)])
options = RewardConfig(output_dir="out", max_steps=2, per_device_train_batch_size=2, report_to=[], save_strategy="no",
                       disable_tqdm=True, use_cpu=True, bf16=False)
RewardTrainer(model=LlamaForSequenceClassification(config), processing_class=tokenizer, train_dataset=rows,
              args=options).train()
