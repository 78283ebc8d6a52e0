"""TRL's GRPOTrainer: generation, log-probabilities and training are told apart"""
NEEDS = ["trl", "datasets", "transformers"]
EXPECT = {"steps": 2, "phases": ["decode", "prefill", "train"]}

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

torch.manual_seed(0)
words = {word: index for index, word in enumerate(["<pad>", "<eos>", "<unk>"] + [f"w{i}" for i in range(93)])}
plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
)
model = LlamaForCausalLM(
    LlamaConfig(
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=96,
    )
)
rows = Dataset.from_list([{"prompt": " ".join(f"w{(i * 7 + j) % 93}" for j in range(8))} for i in range(8)])
GRPOTrainer(
    model=model,
    processing_class=tokenizer,
    train_dataset=rows,
    reward_funcs=lambda completions, **rest: [float(len(each)) for each in completions],
    args=GRPOConfig(
        output_dir="out",
        max_steps=2,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=6,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
        beta=0.0,
    ),
).train()
