"""A script as run_clm.py: labels of -100 over the prompt, accumulation, checkpointing, bf16, and an evaluation"""

NEEDS = ["transformers", "datasets"]
EXPECT = {
    "steps": 3,
    "tokens": 3 * 2 * 4 * 16 + 2 * 4 * 16,
    "padded": 3 * 2 * 4 * 5 + 2 * 4 * 5,
    "phases": {"train": 6, "validation": 2},
}
import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, default_data_collator

torch.manual_seed(0)
rows = [
    {
        "input_ids": [(i * 7 + j) % 96 for j in range(16)],
        "attention_mask": [1] * 16,
        "labels": [-100] * 5 + [(i * 7 + j) % 96 for j in range(5, 16)],
    }
    for i in range(8 * 3)
]
data = Dataset.from_list(rows)
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
args = TrainingArguments(
    output_dir="out",
    max_steps=3,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    gradient_accumulation_steps=2,
    gradient_checkpointing=True,
    bf16=True,
    use_cpu=True,
    report_to=[],
    disable_tqdm=True,
    save_steps=2,
    logging_steps=1,
)
t = Trainer(
    model=model, args=args, train_dataset=data, eval_dataset=data.select(range(8)), data_collator=default_data_collator
)
t.train()
t.evaluate()
