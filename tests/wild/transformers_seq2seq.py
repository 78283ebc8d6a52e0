"""transformers' Seq2SeqTrainer with padded sources and targets (BART from a config)"""
NEEDS = ["transformers", "accelerate"]
# Sources have 10 tokens, of which 3 and 6 are padding; targets have 6, of which 2 and 0 are padding. Two steps.
EXPECT = {"steps": 2, "tokens": 2 * 2 * (10 + 6), "padded": 2 * (3 + 6 + 2), "phases": {"train": 4}}

import torch
from transformers import BartConfig, BartForConditionalGeneration, Seq2SeqTrainer, Seq2SeqTrainingArguments


def padded(rows, width, fill):
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])


def collate(rows):
    source = padded([row["source"] for row in rows], 10, 1)
    return {"input_ids": source, "attention_mask": (source != 1).long(),
            "labels": padded([row["target"] for row in rows], 6, -100)}


torch.manual_seed(0)
rows = [
    {"source": [5 + j for j in range(long)], "target": [7 + j for j in range(short)]}
    for long, short in ((7, 4), (4, 6))
]
model = BartForConditionalGeneration(BartConfig(
    vocab_size=96, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=32))
options = Seq2SeqTrainingArguments(output_dir="out", max_steps=2, per_device_train_batch_size=2, report_to=[],
                                   save_strategy="no", disable_tqdm=True, use_cpu=True, remove_unused_columns=False)
Seq2SeqTrainer(model=model, args=options, train_dataset=rows, data_collator=collate).train()
