"""`mfu flops` asks a model's class where no family here knows it (src/measure/class_need.cc)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

MFU = os.environ.get("MFU_BINARY") or str(Path(__file__).resolve().parents[2] / "build/release/mfu")
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 100,
}
PHASES = (("train", 32, 0), ("forward", 32, 0), ("prefill", 32, 0), ("decode", 1, 32))


def flops(folder, config, *options, name="config.json"):
    path = folder / name
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    run = subprocess.run([MFU, "flops", str(path), "--batch", "2", "--json", "--python", sys.executable, *options],
                         capture_output=True, text=True, env=os.environ | {"MFU_CACHE_DIR": str(folder / "cache")})
    return run.returncode, json.loads(run.stdout)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SMALL, "attention_bias": True},
        {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], **SMALL, "sliding_window": 8},
        {
            "model_type": "qwen3_moe",
            "architectures": ["Qwen3MoeForCausalLM"],
            **SMALL,
            "moe_intermediate_size": 32,
            "num_experts": 8,
            "num_experts_per_tok": 2,
        },
    ],
    ids=lambda config: config["model_type"],
)
def test_the_class_and_the_family_say_the_same_in_every_phase(tmp_path, config):
    for phase, sequence, context in PHASES:
        asked = ["--phase", phase, "--seq", str(sequence), "--context", str(context)]
        _, family = flops(tmp_path, config, *asked)
        _, asked_class = flops(tmp_path, config, *asked, "--by-class")
        assert asked_class["model"]["source"] == "transformers" and family["model"]["source"] == "config"
        for key in ("model_flop", "hardware_flop", "flop_by_part", "tokens"):
            assert asked_class[key] == family[key], (phase, key)
        assert asked_class["model"]["parameters_total"] == family["model"]["parameters_total"]
        assert asked_class["model"]["parameters_active"] == family["model"]["parameters_active"]


def test_a_type_without_a_family_is_counted_by_its_class(tmp_path):
    import torch
    import transformers
    config = {
        "model_type": "mllama_text_model",
        "architectures": ["MllamaForCausalLM"],
        **SMALL,
        "cross_attention_layers": [],
        "pad_token_id": 0,
    }
    status, found = flops(tmp_path, config, "--seq", "16", "--phase", "forward")
    assert status == 0, found
    with torch.device("meta"):
        model = transformers.MllamaForCausalLM(transformers.MllamaTextConfig.from_dict(config))
    assert found["model"]["parameters_total"] == model.num_parameters()
    assert found["model"]["source"] == "transformers"
    # A second answer comes from the cache: it does not need the library's Python.
    kept = list((tmp_path / "cache" / "classes").iterdir())
    assert len(kept) == 1
    kept[0].write_text(kept[0].read_text().replace('"type": "mllama_text_model"', '"type": "from the cache"'))
    assert flops(tmp_path, config, "--seq", "16", "--phase", "forward")[1]["model"]["type"] == "from the cache"


@pytest.mark.parametrize("config,said", [
    ({"model_type": "mllama_text_model", **SMALL, "num_hidden_layers": 10 ** 9}, "num_hidden_layers: 1000000000"),
    ({"model_type": "mllama_text_model", **SMALL, "hidden_size": -64}, "hidden_size"),
    ({"model_type": "no_such_model", "auto_map": {"AutoModel": "evil.Model"}}, "never run here"),
    ({"model_type": "__import__('os').system('touch evil')"}, "does not know"),
    ({"architectures": ["NoSuchClass"]}, "does not know"),
    ({"model_type": "mllama_text_model", "hidden_size": "\"); import os; os.abort()  #"}, "refuses it"),
], ids=["layers", "negative", "remote code", "code as a type", "unknown class", "code as a size"])
def test_a_bad_config_is_refused_with_a_reason(tmp_path, config, said):
    status, found = flops(tmp_path, config, "--seq", "16")
    assert status == 2 and said in found["message"], found
    assert not (tmp_path / "evil").exists() and not list((tmp_path / "cache").glob("classes/*"))


def test_configs_as_they_are_found(tmp_path):
    plain = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SMALL}
    _, known = flops(tmp_path, plain, "--seq", "16")
    _, unnamed = flops(tmp_path, {key: value for key, value in plain.items() if key != "model_type"}, "--seq", "16")
    assert unnamed["model_flop"] == known["model_flop"] and any(
        "no model_type" in note for note in unnamed["assumptions"]
    )
    _, assumed = flops(tmp_path, plain | {"model_type": "my_llama"}, "--seq", "16", "--assume", "llama")
    assert assumed["model_flop"] == known["model_flop"] and any("--assume" in note for note in assumed["assumptions"])
    params = {"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256, "multiple_of": 1024,
              "ffn_dim_multiplier": 1.3, "norm_eps": 1e-05}
    _, meta = flops(tmp_path, params, "--seq", "16", name="params.json")
    assert meta["model"]["parameters_total"] == 8_030_261_248


def test_a_diffusers_model_is_counted_at_the_size_asked_for(tmp_path):
    pytest.importorskip("diffusers")
    config = {
        "_class_name": "UNet2DConditionModel",
        "sample_size": 8,
        "in_channels": 4,
        "out_channels": 4,
        "cross_attention_dim": 32,
        "block_out_channels": [32, 64],
        "layers_per_block": 1,
        "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
        "attention_head_dim": 8,
        "norm_num_groups": 8,
    }
    _, small = flops(tmp_path, config, "--phase", "forward", "--image", "64x64")
    _, latent = flops(tmp_path, config, "--phase", "forward", "--latent", "8x8")
    _, large = flops(tmp_path, config, "--phase", "forward", "--latent", "16x16")
    assert small["model"]["source"] == "diffusers" and small["model_flop"] == latent["model_flop"]
    assert large["model_flop"] > 4 * latent["model_flop"] > 0
