"""`mfu flops` asks a model's class where no family here knows it (src/measure/class_need.cc)."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "models"))
import server  # noqa: E402
import table  # noqa: E402

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


@pytest.fixture(scope="module")
def forked(tmp_path_factory):
    """A Python that has the libraries already: each question is a fork (tests/models)."""
    path = tmp_path_factory.mktemp("forked") / "socket"
    with server.serving(path):
        yield {"MFU_FORKED": str(path)}


def flops(folder, config, *options, name="config.json", forked=None, **environment):
    path = folder / name
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    python = str(ROOT / "tests" / "models" / "forked.py") if forked else sys.executable
    batch = [] if "--lengths" in options else ["--batch", "2"]
    run = subprocess.run(
        [MFU, "flops", str(path), *batch, "--json", *(["--python", python] if python else []), *options],
        capture_output=True,
        text=True,
        env=os.environ | {"MFU_CACHE_DIR": str(folder / "cache")} | (forked or {}) | environment,
    )
    return run.returncode, json.loads(run.stdout)


def drawn(kind, **more):
    """A random config of a family: sizes that divide each other, some of its switches."""
    pick = random.Random(kind).choice
    head, kv, groups = pick([8, 16]), pick([1, 2]), pick([1, 2, 4])
    made = {
        "model_type": kind,
        "hidden_size": head * kv * groups,
        "intermediate_size": pick([40, 96, 136]),
        "num_hidden_layers": pick([2, 3]),
        "num_attention_heads": kv * groups,
        "num_key_value_heads": kv,
        "head_dim": head,
        "vocab_size": pick([100, 333]),
        "pad_token_id": 0,
        "tie_word_embeddings": pick([True, False]),
    }
    return made | {key: pick(value) if isinstance(value, list) else value for key, value in more.items()}


@pytest.mark.parametrize(
    "config",
    [
        drawn("llama", architectures=("LlamaForCausalLM",), attention_bias=[True, False], mlp_bias=[True, False]),
        drawn("mistral", architectures=("MistralForCausalLM",), sliding_window=[5, 12]),
        drawn("qwen2", architectures=("Qwen2ForCausalLM",)),
        drawn("qwen3", architectures=("Qwen3ForCausalLM",), attention_bias=[True, False]),
        drawn("gemma", architectures=("GemmaForCausalLM",)),
        drawn("gemma2", architectures=("Gemma2ForCausalLM",), sliding_window=[4, 8], tie_word_embeddings=True),
        drawn("phi3", architectures=("Phi3ForCausalLM",)),
        drawn("olmo2", architectures=("Olmo2ForCausalLM",)),
        drawn("granite", architectures=("GraniteForCausalLM",)),
        drawn("mixtral", architectures=("MixtralForCausalLM",), num_local_experts=[4, 8], num_experts_per_tok=[1, 2]),
        drawn(
            "qwen3_moe",
            architectures=("Qwen3MoeForCausalLM",),
            moe_intermediate_size=[24, 32],
            num_experts=[4, 8],
            num_experts_per_tok=[2, 3],
        ),
        drawn(
            "opt",
            architectures=("OPTForCausalLM",),
            ffn_dim=[64, 100],
            max_position_embeddings=64,
            word_embed_proj_dim=32,
            hidden_size=32,
            num_attention_heads=4,
        ),
        {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "n_embd": 32,
            "n_head": 4,
            "n_layer": 2,
            "n_positions": 64,
            "vocab_size": 100,
        },
    ],
    ids=lambda config: config["model_type"],
)
def test_the_class_and_the_family_say_the_same_in_every_phase(tmp_path, forked, config):
    for phase, sequence, context in PHASES:
        asked = ["--phase", phase, "--seq", str(sequence), "--context", str(context)]
        _, family = flops(tmp_path, config, *asked)
        _, asked_class = flops(tmp_path, config, *asked, "--by-class", forked=forked)
        assert asked_class["model"]["source"] == "transformers" and family["model"]["source"] == "config"
        for key in ("model_flop", "hardware_flop", "tokens"):
            assert asked_class[key] == family[key], (phase, key, asked_class["flop_by_part"], family["flop_by_part"])
        assert asked_class["model"]["parameters_total"] == family["model"]["parameters_total"]
        assert asked_class["model"]["parameters_active"] == family["model"]["parameters_active"]


LLAMA = drawn("llama", architectures=("LlamaForCausalLM",), tie_word_embeddings=False)


@pytest.mark.parametrize(
    "asked",
    [
        ["--lengths", "8,32,8"],
        ["--lengths", "8,32", "--phase", "prefill"],
        ["--seq", "16", "--lora", "4"],
        ["--seq", "16", "--lora", "4", "--recompute", "full"],
        ["--seq", "16", "--lora", "4:q_proj,v_proj"],
        ["--seq", "16", "--frozen", "model.embed_tokens", "--frozen", "model.layers.0*"],
        ["--seq", "16", "--frozen", "model.embed_tokens", "--frozen", "model.layers.0*", "--recompute", "full"],
        ["--seq", "16", "--frozen", "mlp"],
        ["--seq", "16", "--recompute", "full"],
        ["--seq", "16", "--recompute", "selective"],
        ["--phase", "decode", "--seq", "4", "--context", "12"],
    ],
    ids=" ".join,
)
def test_the_class_and_the_family_say_the_same_of_every_option(tmp_path, forked, asked):
    _, family = flops(tmp_path, LLAMA, *asked)
    _, found = flops(tmp_path, LLAMA, *asked, "--by-class", forked=forked)
    for key in ("model_flop", "hardware_flop", "tokens", "flop_by_part", "assumptions"):
        assert found[key] == family[key], (key, found, family)
    assert found["model"]["parameters_by_part"] == family["model"]["parameters_by_part"]


@pytest.mark.parametrize(
    "asked,said",
    [
        (["--frozen", "no.such"], 'frozen pattern "no.such" fits no weight'),
        (["--lora", "4:q_prj"], 'LoRA target "q_prj" fits no weight of LlamaForCausalLM; near: q_proj'),
        (["--mtp"], "--mtp: not known for a model that is counted by its class"),
        (["--tree"], "--tree: not known for a model that is counted by its class"),
        (["--architecture", "BertModel"], "BertModel takes no config of the type llama"),
        (["--architecture", "NoSuchModel"], "has no class NoSuchModel"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_option_that_does_not_fit_is_refused(tmp_path, forked, asked, said):
    status, found = flops(tmp_path, LLAMA, "--seq", "16", *asked, "--by-class", forked=forked)
    assert status == 2 and said in found["message"], found


def test_masks_of_chunks_and_experts_in_a_loop_are_counted_as_the_family_counts_them(tmp_path, forked):
    """A rule that holds a tensor of its own; and rows that a class picks by what its router says."""
    chunked = drawn(
        "llama4_text",
        architectures=("Llama4ForCausalLM",),
        attention_chunk_size=8,
        intermediate_size_mlp=48,
        num_local_experts=2,
        num_experts_per_tok=1,
        layer_types=("chunked_attention", "full_attention", "chunked_attention"),
        num_hidden_layers=3,
    )
    looped = {
        "model_type": "dbrx",
        "architectures": ["DbrxForCausalLM"],
        "d_model": 32,
        "n_heads": 4,
        "n_layers": 2,
        "max_seq_len": 64,
        "vocab_size": 100,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
    }
    for config, parts in ((chunked, ("attention_scores",)), (looped, ("experts", "attention_scores", "router"))):
        for phase, sequence, context in PHASES:
            asked = ["--phase", phase, "--seq", str(sequence), "--context", str(context)]
            _, family = flops(tmp_path, config, *asked)
            _, found = flops(tmp_path, config, *asked, "--by-class", forked=forked)
            for part in parts:
                assert found["flop_by_part"][part] == family["flop_by_part"][part], (config["model_type"], phase, part)
        said = " ".join(found["notes"])
        assert ("runs every expert" in said) == (config is chunked) and ("in turn" in said) == (config is looped), said


def test_a_weight_that_only_masking_uses_is_a_parameter(tmp_path, forked):
    """wav2vec2-base: 95,044,608 parameters are published."""
    config = {"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForPreTraining"]}
    _, found = flops(tmp_path, config, "--seq", "800", "--phase", "forward", forked=forked)
    assert found["model"]["parameters_total"] == 95_044_608


def test_the_type_wins_over_a_class_that_does_not_take_it(tmp_path, forked):
    config = LLAMA | {"architectures": ["MllamaForConditionalGeneration"]}
    _, found = flops(tmp_path, config, "--seq", "16", "--by-class", forked=forked)
    assert found["model"]["architecture"] == "LlamaForCausalLM"
    assert any("takes no config of the type llama" in note for note in found["notes"]), found["notes"]


def test_a_config_that_is_not_there_is_told_of_once(tmp_path):
    run = subprocess.run([MFU, "flops", str(tmp_path / "none.json"), "--by-class"], capture_output=True, text=True)
    assert run.returncode == 2 and run.stderr.count("cannot open") == 1, run.stderr


# Eleven kinds of model and a UNet: text, pictures, sound, series, states, experts, two towers, encoder and decoder.
# ./test --models tries all types.
SAMPLE = (
    "mamba2",
    "clip",
    "whisper",
    "swin",
    "t5",
    "qwen3_moe",
    "wav2vec2",
    "patchtst",
    "deberta-v2",
    "gemma3n_text",
    "falcon_h1",
)


def test_a_dozen_kinds_of_model_equal_torchs_counter(tmp_path):
    run = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tests" / "models" / "sweep.py"),
            *SAMPLE,
            "UNet2DModel",
            "--output",
            str(tmp_path / "rows"),
        ],
        capture_output=True,
        text=True,
        env=os.environ | {"MFU_BINARY": MFU},
    )
    rows = json.loads((tmp_path / "rows").read_text())["rows"]
    wrong = [row for row in rows if row["verdict"] in ("differs", "not compared") and not table.reason(row)]
    assert not wrong and run.returncode == 0, (wrong, run.stderr[-2000:])
    for kind in (*SAMPLE, "UNet2DModel"):
        assert {"forward", "train"} <= {
            row["phase"]
            for row in rows
            # An older torch cannot run every operator on tensors without memory (weight_norm's backward in 2.6).
            if row["type"] == kind and (row["verdict"] == "equal" or "Meta kernel" in row["why"])
        }, (kind, rows)


def test_attention_of_long_sequences_has_its_true_area(tmp_path, forked):
    config = {"model_type": "mistral", "architectures": ["MistralForCausalLM"], **SMALL, "sliding_window": 1000}
    asked = ["--phase", "forward", "--seq", "30000"]
    assert (
        flops(tmp_path, config, *asked, "--by-class", forked=forked)[1]["model_flop"]
        == flops(tmp_path, config, *asked)[1]["model_flop"]
    )


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
    # What others could have written is not believed.
    kept[0].chmod(0o666)
    assert flops(tmp_path, config, "--seq", "16", "--phase", "forward")[1]["model"]["type"] == "mllama_text_model"
    assert kept[0].stat().st_mode & 0o077 == 0
    kept[0].unlink()
    kept[0].symlink_to("/etc/passwd")
    assert flops(tmp_path, config, "--seq", "16", "--phase", "forward")[1]["model"]["type"] == "mllama_text_model"


@pytest.mark.parametrize(
    "config,said",
    [
        ({"model_type": "mllama_text_model", **SMALL, "num_hidden_layers": 10**9}, "num_hidden_layers: 1000000000"),
        ({"model_type": "mllama_text_model", **SMALL, "hidden_size": -64}, "hidden_size"),
        ({"model_type": "no_such_model", "auto_map": {"AutoModel": "evil.Model"}}, "never run here"),
        ({"model_type": "__import__('os').system('touch evil')"}, "does not know"),
        ({"architectures": ["NoSuchClass"]}, "does not know"),
        ({"model_type": "mllama_text_model", "hidden_size": "\"); import os; os.abort()  #"}, "refuses it"),
        ({"model_type": "mllama_text_model", **SMALL, "hidden_size": 10**30}, "hidden_size"),
        ({"model_type": "mllama_text_model", **SMALL, "num_attention_heads": 0}, "refuses it"),
        ({"model_type": "mllama_text_model", **SMALL, "num_hidden_layers": None}, "refuses it"),
        ({"model_type": "mllama_text_model", **SMALL, "rope_parameters": {"rope_type": "no_such_rope"}}, "refuses it"),
        ({"model_type": "dinov2", "image_size": 10**9, "num_hidden_layers": 1}, ""),
        (
            {
                "model_type": "mllama_text_model",
                "quantization_config": {"quant_method": "os.system"},
                **SMALL,
                "hidden_size": -1,
            },
            "refuses it",
        ),
        ({"model_type": "mllama_text_model", **SMALL, "cross_attention_layers": [1] * 200_000}, "a list of 200000"),
        ({"model_type": "swin", "depths": [10**9, 2]}, "depths: 1000000000 is more"),
        ({"model_type": "mllama_text_model", **SMALL, "vocab_size": -5}, "vocab_size: -5 is below 0"),
        ("[" * 100_000, ""),
        ('{"model_type": "mllama_text_model", "a": ' + '{"a": ' * 40 + "1" + "}" * 41, ""),
    ],
    ids=[
        "layers",
        "negative",
        "remote code",
        "code as a type",
        "unknown class",
        "code as a size",
        "a size beyond 2^64",
        "no heads",
        "no layers",
        "unknown rope",
        "a picture of 10^18",
        "quantization",
        "a long list",
        "deep stages",
        "no words",
        "brackets",
        "nested",
    ],
)
def test_a_bad_config_is_refused_with_a_reason(tmp_path, forked, config, said):
    status, found = flops(tmp_path, config, "--seq", "16", "--by-class", forked=forked)
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
    params = {
        "dim": 4096,
        "n_layers": 32,
        "n_heads": 32,
        "n_kv_heads": 8,
        "vocab_size": 128256,
        "multiple_of": 1024,
        "ffn_dim_multiplier": 1.3,
        "norm_eps": 1e-05,
    }
    _, meta = flops(tmp_path, params, "--seq", "16", name="params.json")
    assert meta["model"]["parameters_total"] == 8_030_261_248
    mistral = {"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8}
    mistral |= {"norm_eps": 1e-05, "vocab_size": 32000}
    _, dense = flops(tmp_path, mistral, "--seq", "16", name="params.json")
    assert dense["model"]["parameters_total"] == 7_241_732_096
    moe = {"moe": {"num_experts_per_tok": 2, "num_experts": 8}}
    _, sparse = flops(tmp_path, mistral | moe, "--seq", "16", name="params.json")
    assert sparse["model"]["parameters_total"] == 46_702_792_704
    status, other = flops(tmp_path, params | {"moe_args": {"num_experts": 16}}, "--seq", "16", name="params.json")
    assert status == 2 and "moe_args" in other["message"]


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
    _, moving = flops(
        tmp_path,
        {
            "_class_name": "UNet3DConditionModel",
            "block_out_channels": [32, 64],
            "layers_per_block": 1,
            "norm_num_groups": 8,
            "cross_attention_dim": 32,
            "attention_head_dim": 8,
            "down_block_types": ["CrossAttnDownBlock3D", "DownBlock3D"],
            "up_block_types": ["UpBlock3D", "CrossAttnUpBlock3D"],
        },
        "--phase",
        "forward",
        "--latent",
        "8x8",
        "--frames",
        "4",
    )
    assert moving["input"]["tensors"]["sample"] == [2, 4, 4, 8, 8]


def test_python_takes_the_same_way(tmp_path, monkeypatch):
    mfu = pytest.importorskip("mfu")
    monkeypatch.setenv("MFU_CACHE_DIR", str(tmp_path / "cache"))
    config = {
        "model_type": "mllama_text_model",
        "architectures": ["MllamaForCausalLM"],
        **SMALL,
        "cross_attention_layers": [],
        "pad_token_id": 0,
    }
    _, told = flops(tmp_path, config, "--seq", "16")
    for source in (config, tmp_path / "config.json", str(tmp_path)):
        found = mfu.flops(source, batch=2, seq=16)
        assert found.model_flop == told["model_flop"] and found.model.source == "transformers"
        assert found.model.parameters_total == told["model"]["parameters_total"]
    with pytest.raises(mfu.Error, match="no cache"):
        mfu.flops({"model_type": "dinov2", "num_hidden_layers": 1}, phase="decode", context=8, seq=1)


def test_the_active_environment_is_asked(tmp_path):
    """Without --python: the environment that is active, then the Python that runs mfu."""
    config = {
        "model_type": "mllama_text_model",
        "architectures": ["MllamaForCausalLM"],
        **SMALL,
        "cross_attention_layers": [],
        "pad_token_id": 0,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    bare = {
        key: value
        for key, value in os.environ.items()
        if key not in ("MFU_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX", "MFU_OWN_PYTHON")
    }
    bare |= {"MFU_CACHE_DIR": str(tmp_path / "cache")}
    empty = tmp_path / "empty" / "bin"
    empty.mkdir(parents=True)
    (empty / "python").write_text("#!/bin/sh\nexec /usr/bin/env -i /usr/bin/python3 -IS \"$@\"\n")
    (empty / "python").chmod(0o755)
    ask = lambda **more: subprocess.run(
        [MFU, "flops", str(tmp_path), "--seq", "16", "--json"], capture_output=True, text=True, env=bare | more
    )  # noqa: E731
    prefix = str(Path(sys.executable).parents[1])
    assert json.loads(ask(VIRTUAL_ENV=prefix).stdout)["model"]["source"] == "transformers"
    assert "has no torch" in ask(VIRTUAL_ENV=str(tmp_path / "empty")).stdout
    assert (
        json.loads(ask(VIRTUAL_ENV=str(tmp_path / "empty"), MFU_OWN_PYTHON=sys.executable).stdout)["model"]["source"]
        == "transformers"
    )
