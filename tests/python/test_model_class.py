"""`mfu flops` asks a model's class if no family here knows the model (src/measure/class_need.cc)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
from model_class import MFU, ROOT, SMALL, drawn, flops, forked  # noqa: E402, F401
import table  # noqa: E402

PHASES = (("train", 32, 0), ("forward", 32, 0), ("prefill", 32, 0), ("decode", 1, 32))


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
    """A mask rule that holds its own tensor, and a class that picks rows by the output of its router."""
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


def test_a_note_says_if_the_class_ties_its_head_against_the_config(tmp_path, forked):
    """T5 v1.1: its checkpoints have their own output head, but the class of transformers 5 does not."""
    config = {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_heads": 4,
        "num_layers": 2,
        "vocab_size": 100,
        "feed_forward_proj": "gated-gelu",
    }
    for tied in (True, False):
        told = config | {"tie_word_embeddings": tied}
        _, family = flops(tmp_path, told, "--seq", "16")
        _, found = flops(tmp_path, told, "--seq", "16", "--by-class", forked=forked)
        head = family["model"]["parameters_total"] - found["model"]["parameters_total"]
        said = any("a head of its own holds 3200 parameters more" in note for note in found["notes"])
        assert (head, said) in ([(0, False)] if tied else [(3200, True), (0, False)]), (head, found["notes"])
        assert found["model_flop"] == family["model_flop"]


def test_a_short_convolution_is_counted_with_what_its_class_cuts_off(tmp_path, forked):
    """LFM2: in decode its class runs the kernel over its state and the token, which gives two positions instead of
    one."""
    kernel, layers = 3, ["conv", "full_attention", "conv"]
    config = drawn("lfm2", architectures=("Lfm2ForCausalLM",), conv_L_cache=kernel, layer_types=tuple(layers))
    config |= {"num_hidden_layers": 3, "block_auto_adjust_ff_dim": False}
    each = 2 * 2 * kernel * config["hidden_size"] * 2  # FLOPs, sequences, conv layers
    for phase, sequence, context, cut in (("forward", 32, 0, kernel - 1), ("decode", 1, 32, 1)):
        asked = ["--phase", phase, "--seq", str(sequence), "--context", str(context)]
        _, family = flops(tmp_path, config, *asked)
        _, found = flops(tmp_path, config, *asked, "--by-class", forked=forked)
        assert found["model_flop"] - family["model_flop"] == cut * each, (phase, found, family)


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


def test_a_missing_config_is_reported_once(tmp_path):
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
            # An older torch cannot run every operator on tensors without memory (2.6 lacks the backward of
            # weight_norm).
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
    # The second answer comes from the cache, so it does not need the library's Python.
    kept = list((tmp_path / "cache" / "classes").iterdir())
    assert len(kept) == 1
    kept[0].write_text(kept[0].read_text().replace('"type": "mllama_text_model"', '"type": "from the cache"'))
    assert flops(tmp_path, config, "--seq", "16", "--phase", "forward")[1]["model"]["type"] == "from the cache"
    # A file that others could have written is not trusted.
    kept[0].chmod(0o666)
    assert flops(tmp_path, config, "--seq", "16", "--phase", "forward")[1]["model"]["type"] == "mllama_text_model"
    assert kept[0].stat().st_mode & 0o077 == 0
    kept[0].unlink()
    kept[0].symlink_to("/etc/passwd")
    assert flops(tmp_path, config, "--seq", "16", "--phase", "forward")[1]["model"]["type"] == "mllama_text_model"


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
    """Without --python, the active environment is asked first, then the Python that runs mfu."""
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
