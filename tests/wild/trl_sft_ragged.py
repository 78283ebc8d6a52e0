"""TRL's SFTTrainer on texts of unequal length: rows are padded"""
NEEDS = ["trl", "datasets", "transformers"]
# Rows have 4 to 8 words and an end. In the order of the data, 5, 6, 7, 8 are padded to 8, and 9, 5, 6, 7 to 9.
EXPECT = {"steps": 2, "tokens": 4 * 8 + 4 * 9, "padded": 6 + 9, "phases": {"train": 2}}

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

torch.manual_seed(0)
words = {word: index for index, word in enumerate(["<pad>", "<eos>", "<unk>"] + [f"w{i}" for i in range(93)])}
plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4,
                                     num_key_value_heads=2, vocab_size=96))
rows = Dataset.from_list([{"text": " ".join(f"w{(i * 7 + j) % 93}" for j in range(4 + i % 5))} for i in range(8)])
options = SFTConfig(output_dir="out", max_steps=2, per_device_train_batch_size=4, report_to=[], save_strategy="no",
                    disable_tqdm=True, use_cpu=True, bf16=False, max_length=16)


class Ordered(SFTTrainer):
    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)


Ordered(model=model, processing_class=tokenizer, train_dataset=rows, args=options).train()
