"""TRL's DPOTrainer: a policy and its reference (Llama from a config)"""
NEEDS = ["trl", "datasets", "transformers"]
EXPECT = {"steps": 2, "phases": {"train": 2, "forward": 2}}

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

torch.manual_seed(0)
words = {word: index for index, word in enumerate(["<pad>", "<eos>", "<unk>"] + [f"w{i}" for i in range(93)])}
plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
config = LlamaConfig(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4,
                     num_key_value_heads=2, vocab_size=96)
model, reference = LlamaForCausalLM(config), LlamaForCausalLM(config)
rows = Dataset.from_list([{"prompt": "w1 w2 w3", "chosen": f"w{i} w5 w6", "rejected": f"w7 w{i}"} for i in range(8)])
options = DPOConfig(output_dir="out", max_steps=2, per_device_train_batch_size=2, report_to=[], save_strategy="no",
                    disable_tqdm=True, use_cpu=True, bf16=False)
DPOTrainer(model=model, ref_model=reference, processing_class=tokenizer, train_dataset=rows, args=options).train()
