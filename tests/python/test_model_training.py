"""Frozen weights and adapters: compares our count by position with the backward pass that torch runs."""

import fnmatch
import os
import random

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import model_families as families  # noqa: E402
import model_probe  # noqa: E402
import test_model_families as shared  # noqa: E402

TRIALS = int(os.environ.get("MFU_MODEL_TRIALS", "5"))
pytestmark = pytest.mark.skipif(model_probe.find_probe() is None, reason="mfu_model_probe is not built")

KINDS = [
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma",
    "gemma2",
    "olmo2",
    "mixtral",
    "qwen3_moe",
    "deepseek_v3",
    "qwen2_moe",
]
PATTERNS = [
    "model.embed_tokens*",
    "model.layers.0.*",
    "model.layers.1.*",
    "*.mlp.*",
    "*.self_attn.q_proj*",
    "*.self_attn.k_proj*",
    "*.self_attn.v_proj*",
    "*.self_attn.*",
    "*norm*",
    "lm_head*",
    "model.*",
]


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_patterns_cost_what_torch_counts(kind):
    requests, expected = [], []
    for seed in range(TRIALS):
        r = random.Random(f"frozen/{kind}/{seed}")
        fields = families.generate(kind, seed) | {"tie_word_embeddings": False, "num_hidden_layers": 3}
        model = shared.build(kind, fields, "AutoModelForCausalLM", "cpu").float().train()
        names = [name for name, _ in model.named_parameters()]
        usable = [p for p in PATTERNS if any(fnmatch.fnmatchcase(n, p) for n in names)]
        frozen = r.sample(usable, r.randint(1, 3))
        for name, parameter in model.named_parameters():
            if any(fnmatch.fnmatchcase(name, p) for p in frozen):
                parameter.requires_grad_(False)
        if not any(p.requires_grad for p in model.parameters()):
            continue
        inputs = shared.inputs_of(kind, model, 2, 7, 0)
        expected.append(shared.count(lambda: shared.loss_of(model(**inputs, use_cache=False)).backward()))
        requests.append(
            {
                "config": fields | {"model_type": kind},
                "architecture": type(model).__name__,
                "phase": "train",
                "batch": 2,
                "seq": 7,
                "frozen": frozen,
            }
        )
    for request, flop, answer in zip(requests, expected, model_probe.ask(requests)):
        assert "error" not in answer, (answer, request)
        got = answer["conventions"]["flopcounter"]
        assert got == flop, (got - flop, flop, request)


class Adapted(torch.nn.Module):
    """A frozen linear layer and a LoRA pair beside it, computed as in PEFT."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.down = torch.nn.Linear(base.in_features, rank, bias=False)
        self.up = torch.nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


@pytest.mark.parametrize(
    "targets",
    [
        ["q_proj"],
        ["v_proj"],
        ["q_proj", "v_proj"],
        ["down_proj"],
        ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    ],
)
def test_adapters_cost_what_torch_counts(targets):
    for seed in range(max(1, TRIALS // 5)):
        fields = families.generate("llama", seed) | {"num_hidden_layers": 3}
        model = shared.build("llama", fields, "AutoModelForCausalLM", "cpu").float().train()
        model.requires_grad_(False)
        for layer in model.model.layers:
            for block in (layer.self_attn, layer.mlp):
                for name in targets:
                    if hasattr(block, name):
                        setattr(block, name, Adapted(getattr(block, name), 4))
        inputs = shared.inputs_of("llama", model, 2, 7, 0)
        flop = shared.count(lambda: shared.loss_of(model(**inputs, use_cache=False)).backward())
        (answer,) = model_probe.ask(
            [
                {
                    "config": fields | {"model_type": "llama"},
                    "architecture": "LlamaForCausalLM",
                    "phase": "train",
                    "batch": 2,
                    "seq": 7,
                    "lora": 4,
                    "targets": targets,
                }
            ]
        )
        assert answer["conventions"]["flopcounter"] == flop, (answer["conventions"]["flopcounter"] - flop, fields)
