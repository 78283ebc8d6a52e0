"""transformers' Trainer with evaluation at the end (GPT-2 from a config)"""
NEEDS = ["transformers", "accelerate"]
EXPECT = {"steps": 3, "tokens": (3 * 4 + 8) * 16, "phases": {"train": 3, "validation": 2}}

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
rows = [{"input_ids": (ids := torch.randint(0, 96, (16,))), "labels": ids} for _ in range(12)]
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=96, n_positions=32))
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="out",
        max_steps=3,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    ),
    train_dataset=rows,
    eval_dataset=rows[:8],
)
trainer.train()
trainer.evaluate()
