"""transformers' Trainer with a collator that pads (OPT from a config), and an evaluation"""
NEEDS = ["transformers", "accelerate"]
EXPECT = {
    "steps": 2,
    "tokens": 2 * 4 * 12 + 2 * 4 * 12,
    "padded": 4 * (2 + 5 + 0 + 7),
    "phases": {"train": 2, "validation": 2},
}

import torch
from transformers import OPTConfig, OPTForCausalLM, Trainer, TrainingArguments


def collate(rows):
    ids, mask = torch.ones(len(rows), 12, dtype=torch.long), torch.zeros(len(rows), 12, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row["ids"])], mask[i, : len(row["ids"])] = torch.tensor(row["ids"]), 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.where(mask == 1, ids, -100)}


torch.manual_seed(0)
rows = [{"ids": [5 + j for j in range(length)]} for length in (10, 7, 12, 5)] * 2
model = OPTForCausalLM(OPTConfig(num_hidden_layers=2, hidden_size=32, ffn_dim=64, num_attention_heads=4, vocab_size=96,
                                 word_embed_proj_dim=32, max_position_embeddings=32))
options = TrainingArguments(
    output_dir="out",
    max_steps=2,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
    use_cpu=True,
    remove_unused_columns=False,
)


class Ordered(Trainer):
    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)


trainer = Ordered(model=model, args=options, train_dataset=rows, eval_dataset=rows, data_collator=collate)
trainer.train()
trainer.evaluate()
