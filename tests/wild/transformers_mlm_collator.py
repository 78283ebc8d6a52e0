"""transformers' masked-language collator with padding, evaluated every second step"""

NEEDS = ["transformers", "datasets"]
EXPECT = {"steps": 4, "phases": {"train": 4, "validation": 4}}
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    Trainer,
    TrainingArguments,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
)

torch.manual_seed(0)
words = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(91)])}
plain = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
tok = PreTrainedTokenizerFast(
    tokenizer_object=plain,
    pad_token="[PAD]",
    unk_token="[UNK]",
    mask_token="[MASK]",
    cls_token="[CLS]",
    sep_token="[SEP]",
)
data = Dataset.from_list([{"text": " ".join(f"w{(i + j) % 91}" for j in range(5 + i % 7))} for i in range(16)]).map(
    lambda r: tok(r["text"]), remove_columns=["text"]
)
model = BertForMaskedLM(
    BertConfig(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, vocab_size=96)
)
args = TrainingArguments(
    output_dir="out",
    max_steps=4,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    eval_strategy="steps",
    eval_steps=2,
    use_cpu=True,
    report_to=[],
    disable_tqdm=True,
    save_strategy="no",
)
Trainer(
    model=model,
    args=args,
    train_dataset=data,
    eval_dataset=data.select(range(8)),
    data_collator=DataCollatorForLanguageModeling(tok, mlm_probability=0.3),
).train()
