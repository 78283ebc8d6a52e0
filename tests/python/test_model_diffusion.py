"""Compares diffusion transformers with diffusers, if it is installed."""

import os
import random

import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import model_probe  # noqa: E402

TRIALS = int(os.environ.get("MFU_MODEL_TRIALS", "5"))
pytestmark = pytest.mark.skipif(model_probe.find_probe() is None, reason="mfu_model_probe is not built")


def flux(r):
    return {
        "num_attention_heads": r.randint(1, 3),
        "attention_head_dim": 16,
        "axes_dims_rope": [4, 4, 8],
        "in_channels": 8,
        "num_layers": r.randint(1, 3),
        "num_single_layers": r.randint(1, 3),
        "joint_attention_dim": r.randint(5, 20),
        "pooled_projection_dim": r.randint(5, 20),
        "guidance_embeds": r.random() < 0.5,
    }


def sd3(r):
    heads = r.randint(1, 3)
    layers = r.randint(2, 4)
    f = {
        "num_attention_heads": heads,
        "attention_head_dim": 8,
        "in_channels": 4,
        "patch_size": 2,
        "num_layers": layers,
        "sample_size": 16,
        "pos_embed_max_size": 16,
        "joint_attention_dim": r.randint(5, 20),
        "caption_projection_dim": heads * 8,
        "pooled_projection_dim": r.randint(5, 20),
        "out_channels": 4,
    }
    if r.random() < 0.5:
        f |= {"qk_norm": "rms_norm"}
    if r.random() < 0.5:
        f |= {"dual_attention_layers": [0]}
    return f


def dit(r):
    return {
        "num_attention_heads": r.randint(1, 3),
        "attention_head_dim": 8,
        "in_channels": 4,
        "out_channels": r.choice([4, 8]),
        "patch_size": 2,
        "num_layers": r.randint(1, 3),
        "sample_size": 16,
        "num_embeds_ada_norm": r.randint(5, 20),
    }


KINDS = {"FluxTransformer2DModel": flux, "SD3Transformer2DModel": sd3, "DiTTransformer2DModel": dit}


def inputs_of(kind, fields, batch, text):
    if kind == "DiTTransformer2DModel":
        return {
            "hidden_states": torch.zeros(batch, 4, 16, 16),
            "timestep": torch.zeros(batch),
            "class_labels": torch.zeros(batch, dtype=torch.long),
        }
    shared = {"encoder_hidden_states": torch.zeros(batch, text, fields["joint_attention_dim"]),
              "pooled_projections": torch.zeros(batch, fields["pooled_projection_dim"]), "timestep": torch.zeros(batch)}
    if kind == "SD3Transformer2DModel":
        return shared | {"hidden_states": torch.zeros(batch, 4, 16, 16)}
    return shared | {
        "hidden_states": torch.zeros(batch, 64, fields["in_channels"]),
        "img_ids": torch.zeros(64, 3),
        "txt_ids": torch.zeros(text, 3),
        "guidance": torch.zeros(batch) if fields["guidance_embeds"] else None,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_and_linear_flop_equal_those_of_the_class(kind):
    for seed in range(TRIALS):
        fields = KINDS[kind](random.Random(f"{kind}/{seed}"))
        model = getattr(diffusers, kind)(**fields).eval()
        batch, text = 1 + seed % 2, 7
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(**inputs_of(kind, fields, batch, text))
        request = {
            "config": fields | {"_class_name": kind},
            "phase": "forward",
            "batch": batch,
            "seq": 64,
            "encoder": text,
        }
        (answer,) = model_probe.ask([request])
        assert "error" not in answer, answer
        assert answer["parameters"] == sum(p.numel() for p in model.parameters()), (answer["by_part"], fields)
        # torch does not count flash attention on the CPU, so its count lacks our scores.
        assert answer["conventions"]["flopcounter"] - answer["scores"] == counter.get_total_flops(), fields
