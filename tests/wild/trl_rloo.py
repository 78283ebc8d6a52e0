"""TRL's RLOOTrainer with a reward model and a KL term"""

NEEDS = ["trl"]
EXPECT = {"steps": 2, "phases": {"train": 2, "prefill": 2, "decode": 10, "forward": 6}}
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import RLOOConfig, RLOOTrainer

torch.manual_seed(0)
words = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>"] + [f"w{i}" for i in range(93)])}
plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
tok = PreTrainedTokenizerFast(
    tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
)
cfg = dict(
    num_hidden_layers=2,
    hidden_size=32,
    intermediate_size=64,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=96,
    pad_token_id=0,
)
model = LlamaForCausalLM(LlamaConfig(**cfg))
model.config._name_or_path = "x"
model.save_pretrained("m")
tok.save_pretrained("m")
reward = LlamaForSequenceClassification(LlamaConfig(**cfg, num_labels=1))
reward.save_pretrained("r")
tok.save_pretrained("r")
rows = Dataset.from_list([{"prompt": " ".join(f"w{(i * 7 + j) % 93}" for j in range(8))} for i in range(8)])
RLOOTrainer(
    model="m",
    reward_funcs="r",
    train_dataset=rows,
    args=RLOOConfig(
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
        beta=0.05,
    ),
).train()
