"""Real and bad configs, counted by the model's class (src/measure/class_need.cc)."""

import sys

import pytest

pytest.importorskip("transformers")
from model_class import SMALL, flops, forked  # noqa: E402, F401


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


def test_configs_without_a_type_and_original_params_are_read(tmp_path):
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
    small = params | {"dim": 2048, "n_layers": 16, "multiple_of": 256, "ffn_dim_multiplier": 1.5}  # Llama 3.2 1B
    _, tied = flops(tmp_path, small, "--seq", "16", "--set", "tie_word_embeddings=true", name="params.json")
    assert tied["model"]["parameters_total"] == 1_235_814_400
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


def test_a_head_that_no_family_describes_is_asked_of_its_class(tmp_path, forked):
    config = {"model_type": "bert", "architectures": ["BertForNextSentencePrediction"], **SMALL}
    _, found = flops(tmp_path, config, "--seq", "16", "--phase", "forward", forked=forked)
    assert found["model"]["source"] == "transformers"
    _, other = flops(tmp_path, config | {"architectures": ["BertForMaskedLM"]}, "--seq", "16", "--phase", "forward")
    assert other["model"]["source"] == "config"


def test_a_package_that_a_class_needs_is_named_in_one_sentence(tmp_path):
    """The Python that is asked behaves as if timm were not installed."""
    config = {
        "model_type": "timm_backbone",
        "architectures": ["TimmBackbone"],
        "backbone": "resnet18",
        "out_indices": [1],
    }
    without = tmp_path / "python"
    without.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'import sys; sys.modules[\"timm\"] = None; exec(sys.stdin.read())'\n"
    )
    without.chmod(0o755)
    status, found = flops(tmp_path, config, "--seq", "16", "--python", str(without), python=False)
    assert status == 2 and found["message"].endswith(
        " has no timm: install it there (pip install timm), or name another Python (--python)"
    ), found


def test_a_params_json_that_is_not_read_is_not_taken_for_another_model(tmp_path):
    config = {"dim": 4096, "n_layers": 64, "vocab_size": 32768, "n_groups": 8, "model_type": "mamba"}
    status, found = flops(tmp_path, config, "--seq", "16", name="params.json")
    assert status == 2 and "give the model's config.json" in found["message"]


def test_an_explicit_width_wins_over_an_expansion(tmp_path):
    """Falcon-Mamba 7B says expand 16, but is 8192 wide. Its published number of parameters is 7,272,665,088."""
    config = {
        "model_type": "falcon_mamba",
        "architectures": ["FalconMambaForCausalLM"],
        "expand": 16,
        "hidden_size": 4096,
        "intermediate_size": 8192,
        "num_hidden_layers": 64,
        "state_size": 16,
        "tie_word_embeddings": False,
        "time_step_rank": 256,
        "vocab_size": 65024,
    }
    assert flops(tmp_path, config, "--seq", "16")[1]["model"]["parameters_total"] == 7_272_665_088


def test_sound_series_and_codebook_models_are_counted(tmp_path, forked):
    """Three classes: one keeps numbers for its padding in tensors, one needs features that its config names, and one
    has tokens of four codebooks."""
    sound = {
        "model_type": "encodec",
        "architectures": ["EncodecModel"],
        "num_filters": 4,
        "hidden_size": 16,
        "codebook_dim": 16,
        "codebook_size": 32,
        "num_lstm_layers": 1,
        "upsampling_ratios": [8, 5, 4],
    }
    _, found = flops(tmp_path, sound, "--seq", "4000", "--phase", "forward", forked=forked)
    assert found["input"]["tensors"] == {"input_values": [2, 1, 4000]}, found
    series = {
        "model_type": "informer",
        "architectures": ["InformerForPrediction"],
        "prediction_length": 8,
        "context_length": 16,
        "lags_sequence": [1, 2, 3],
        "num_time_features": 2,
        "num_static_categorical_features": 1,
        "cardinality": [366],
        "embedding_dimension": [6],
        "d_model": 16,
    }
    for phase in ("forward", "train"):
        _, found = flops(tmp_path, series, "--phase", phase, forked=forked)
        assert found["input"]["tensors"]["static_categorical_features"] == [2, 1], found
    decoder = {"hidden_size": 32, "ffn_dim": 48, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 64}
    music = {
        "model_type": "musicgen",
        "architectures": ["MusicgenForConditionalGeneration"],
        "text_encoder": {"model_type": "t5", "d_model": 32, "d_ff": 48, "num_layers": 1, "num_heads": 4, "d_kv": 8},
        "audio_encoder": sound,
        "decoder": decoder | {"model_type": "musicgen_decoder", "num_codebooks": 4, "pad_token_id": 64},
    }
    status, found = flops(tmp_path, music, "--phase", "decode", "--seq", "1", "--context", "12", forked=forked)
    assert status == 0 and found["input"]["tensors"] == {"decoder_input_ids": [8, 1]}, found
