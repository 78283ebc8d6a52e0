"""TRL's ORPOTrainer: pairs, no reference"""

NEEDS = ["trl"]
EXPECT = {"steps": 2, "phases": {"train": 2}}
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

try:
    from trl import ORPOConfig, ORPOTrainer
except ImportError:
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer
torch.manual_seed(0)
words = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>"] + [f"w{i}" for i in range(93)])}
plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
tok = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def model():
    return LlamaForCausalLM(
        LlamaConfig(
            num_hidden_layers=2,
            hidden_size=32,
            intermediate_size=64,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=96,
        )
    )


rows = Dataset.from_list(
    [{"prompt": f"w{i} w{i + 1} w{i + 2}", "chosen": " w5 w6 w7", "rejected": " w8"} for i in range(8)]
)
ORPOTrainer(
    model=model(),
    processing_class=tok,
    train_dataset=rows,
    args=ORPOConfig(
        output_dir="out",
        max_steps=2,
        per_device_train_batch_size=4,
        max_length=16,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
    ),
).train()
