"""What several entries use: a small Llama, a tokenizer of words, and loops that differ in one line."""

SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
}
QUIETLY = {
    "output_dir": "out",
    "per_device_train_batch_size": 4,
    "report_to": [],
    "save_strategy": "no",
    "disable_tqdm": True,
    "use_cpu": True,
    "bf16": False,
}


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**SIZES))


def tokenizer(**options):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: at for at, word in enumerate(["<pad>", "<eos>", "<unk>"] + [f"w{i}" for i in range(93)])}
    plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=plain, **names, **options)


def train_adapter(config):
    """Trains an adapter of PEFT on a Llama, with labels of -100 over the prompt, and evaluates once."""
    import torch
    from peft import get_peft_model

    torch.manual_seed(0)
    model = get_peft_model(llama(), config)
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3)
    model.train()
    for _ in range(3):
        ids = torch.randint(0, 96, (2, 16))
        labels = ids.clone()
        labels[:, :4] = -100
        model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        model(input_ids=ids, labels=ids)


def train_by_reward(trainer, config, **options):
    """Runs a trainer of TRL that generates, with a model as the reward."""
    import torch
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, pad_token_id=0))
    model.config._name_or_path = "x"
    reward = LlamaForSequenceClassification(LlamaConfig(**SIZES, pad_token_id=0, num_labels=1))
    for folder, made in (("m", model), ("r", reward)):
        made.save_pretrained(folder)
        tokenizer(padding_side="left").save_pretrained(folder)
    rows = Dataset.from_list([{"prompt": " ".join(f"w{(i * 7 + j) % 93}" for j in range(8))} for i in range(8)])
    arguments = config(num_generations=4, max_completion_length=6, beta=0.05, **QUIETLY, **options)
    trainer(model="m", reward_funcs="r", train_dataset=rows, args=arguments).train()


def train_by_preference(trainer, config, rows, **models):
    """Runs a trainer of TRL that trains on given answers."""
    import torch
    from datasets import Dataset

    torch.manual_seed(0)
    given = {"model": llama(), "processing_class": tokenizer(), "train_dataset": Dataset.from_list(rows)}
    trainer(**given, **models, args=config(max_steps=2, max_length=16, **QUIETLY)).train()


def train_compiled(lengths, **options):
    """Trains a small compiled GPT, and evaluates it after every second step."""
    import torch
    from torch import nn

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(64, 32)
            self.projections = nn.Linear(32, 96)
            self.out = nn.Linear(32, 32)
            self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
            self.head = nn.Linear(32, 64)

        def forward(self, ids):
            x = self.table(ids)
            rows, length, _ = x.shape
            q, k, v = self.projections(x).view(rows, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, 32))
            return self.head(x + self.mlp(x))

    torch.manual_seed(0)
    model = Gpt()
    compiled = torch.compile(model, **options)
    optimizer = torch.optim.AdamW(model.parameters())

    def loss_of(length):
        ids = torch.randint(64, (2, length))
        return nn.functional.cross_entropy(compiled(ids).flatten(0, 1), ids.flatten())

    for step, length in enumerate(lengths):
        loss_of(length).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 2:
            compiled.eval()
            with torch.no_grad():
                loss_of(12)
            compiled.train()
