"""Seq2SeqTrainer with predict_with_generate: the evaluation generates"""

NEEDS = ["transformers", "datasets"]
EXPECT = {"steps": 2}
import torch
from transformers import (
    T5Config,
    T5ForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    default_data_collator,
)

torch.manual_seed(0)
rows = [
    {
        "input_ids": [(i * 7 + j) % 90 + 2 for j in range(12)],
        "attention_mask": [1] * 12,
        "labels": [(i + j) % 90 + 2 for j in range(6)],
    }
    for i in range(8)
]
model = T5ForConditionalGeneration(
    T5Config(num_layers=2, d_model=32, d_ff=64, d_kv=8, num_heads=4, vocab_size=96, decoder_start_token_id=0)
)
args = Seq2SeqTrainingArguments(
    output_dir="out",
    max_steps=2,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    predict_with_generate=True,
    generation_max_length=8,
    use_cpu=True,
    report_to=[],
    disable_tqdm=True,
    save_strategy="no",
)
t = Seq2SeqTrainer(
    model=model,
    args=args,
    train_dataset=rows,
    eval_dataset=rows,
    data_collator=default_data_collator,
    compute_metrics=lambda all: {"none": 0.0},
)
t.train()
t.evaluate()
