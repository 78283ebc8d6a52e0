"""Vision-language models: parameters of random small ones, and the FLOPs of their vision part."""

import os
import random

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import model_families as families  # noqa: E402
import model_probe  # noqa: E402

TRIALS = int(os.environ.get("MFU_MODEL_TRIALS", "5"))
pytestmark = pytest.mark.skipif(model_probe.find_probe() is None, reason="mfu_model_probe is not built")
transformers.logging.set_verbosity_error()


def _text(kind, r):
    fields = families.CAUSAL[kind](r)
    fields.pop("tie_word_embeddings")
    return fields


def _qwen_vision(r, text):
    heads = r.choice([1, 2])
    return {
        "depth": r.randint(1, 3),
        "num_heads": heads,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "width": heads * 4 * r.randint(1, 4),
        "out": text["hidden_size"],
    }


def qwen2_vl(r):
    text = _text("qwen2", r)
    v = _qwen_vision(r, text)
    return {
        "text_config": text,
        "vision_config": {"embed_dim": v.pop("width"), "hidden_size": v.pop("out"), "mlp_ratio": r.choice([2, 4])} | v,
    }


def qwen2_5_vl(r):
    text = _text("qwen2", r)
    v = _qwen_vision(r, text)
    return {
        "text_config": text,
        "vision_config": (
            {
                "hidden_size": v.pop("width"),
                "out_hidden_size": v.pop("out"),
                "intermediate_size": r.randint(5, 20),
                "window_size": 16,
                "fullatt_block_indexes": r.choice([[], [0], [1]]),
            }
            | v
        ),
    }


def qwen3_vl(r, kind="qwen3"):
    text = _text(kind, r)
    v = _qwen_vision(r, text)
    depth = v["depth"]
    return {
        "text_config": text,
        "vision_config": (
            {
                "hidden_size": v.pop("width"),
                "out_hidden_size": v.pop("out"),
                "intermediate_size": r.randint(5, 20),
                "num_position_embeddings": 16,
                "deepstack_visual_indexes": r.choice([[], [0], [depth - 1]]),
            }
            | v
        ),
    }


def qwen3_vl_moe(r):
    config = qwen3_vl(r, "qwen3_moe")
    return config


def qwen3_5(r):
    config = qwen3_vl(r, "qwen3_5_text")
    config["vision_config"].pop("deepstack_visual_indexes")
    return config


def _tower(r):
    return families.clip_vision_model(r)


def gemma3(r):
    vision = _tower(r) | {"model_type": "siglip_vision_model", "image_size": 16, "vision_use_head": r.random() < 0.5}
    return {"text_config": _text("gemma3_text", r), "vision_config": vision, "mm_tokens_per_image": 4}


def gemma4(r):
    heads, kv, width = r.choice([2, 4]), r.choice([1, 2]), 4 * r.randint(1, 3)
    vision = {
        "hidden_size": r.randint(5, 30),
        "intermediate_size": r.randint(5, 20),
        "num_hidden_layers": r.randint(1, 3),
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": width,
        "patch_size": 4,
        "pooling_kernel_size": r.choice([2, 3]),
        "position_embedding_size": 32,
        "use_clipped_linears": r.random() < 0.5,
    }
    config = {
        "text_config": _text("gemma4_text", r) | {"use_bidirectional_attention": r.choice([None, "vision"])},
        "vision_config": vision,
    }
    if r.random() < 0.5:
        heads = r.choice([1, 2, 4])
        config["audio_config"] = {
            "hidden_size": heads * r.randint(2, 6),
            "num_attention_heads": heads,
            "num_hidden_layers": r.randint(1, 3),
            "conv_kernel_size": r.randint(2, 5),
            "subsampling_conv_channels": [4 * r.randint(1, 4), r.randint(1, 8)],
            "output_proj_dims": r.randint(3, 20),
        }
    return config


def llava(r):
    return {
        "text_config": _text("llama", r) | {"model_type": "llama"},
        "vision_config": _tower(r) | {"model_type": "clip_vision_model"},
    }


def llava_onevision(r):
    return {"text_config": _text("qwen2", r) | {"model_type": "qwen2"}, "multimodal_projector_bias": r.random() < 0.5,
            "vision_config": _tower(r) | {"model_type": "siglip_vision_model", "vision_use_head": r.random() < 0.5}}


def vipllava(r):
    config = llava(r)
    config["vision_config"]["num_hidden_layers"] = 3
    return config | {"vision_feature_layers": r.choice([[-1], [-2, -1], [0, 1, 2]])}


def paligemma(r):
    vision = _tower(r) | {"model_type": "siglip_vision_model", "vision_use_head": r.random() < 0.5}
    text = _text("gemma", r)
    return {
        "text_config": text | {"model_type": "gemma"},
        "vision_config": vision,
        "projection_dim": text["hidden_size"],
    }


def mistral3(r):
    vision = _tower(r) | {"model_type": "pixtral"}
    vision["hidden_size"] = vision["num_attention_heads"] * 4 * r.randint(1, 3)
    return {
        "text_config": _text("mistral", r) | {"model_type": "mistral"},
        "vision_config": vision,
        "spatial_merge_size": 2,
        "multimodal_projector_bias": r.random() < 0.5,
    }


def internvl(r):
    vision = _tower(r) | {
        "attention_bias": r.random() < 0.5,
        "use_qk_norm": r.random() < 0.5,
        "norm_type": r.choice(["layer_norm", "rms_norm"]),
        "use_mask_token": r.random() < 0.5,
        "use_mean_pooling": r.random() < 0.5,
        "use_absolute_position_embeddings": r.random() < 0.5,
    }
    vision["image_size"] = 4 * r.choice([2, 4])
    return {
        "text_config": _text("qwen2", r) | {"model_type": "qwen2"},
        "vision_config": vision,
        "downsample_ratio": 0.5,
    }


def idefics3(r):
    vision = _tower(r)
    vision["image_size"] = 4 * r.choice([2, 4])
    return {"text_config": _text("llama", r) | {"model_type": "llama"}, "vision_config": vision, "scale_factor": 2}


def llama4(r):
    heads = r.choice([1, 2])
    hidden, out = heads * 4 * r.randint(1, 4), r.randint(3, 20)
    vision = {
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_hidden_layers": r.randint(1, 3),
        "intermediate_size": 4 * hidden,
        "patch_size": 4,
        "image_size": 4 * r.choice([2, 4]),
        "pixel_shuffle_ratio": 0.5,
        "projector_input_dim": out,
        "projector_output_dim": out,
        "vision_output_dim": out,
    }
    return {"text_config": _text("llama4_text", r), "vision_config": vision}


MULTIMODAL = {
    f.__name__: f
    for f in (
        qwen2_vl,
        qwen2_5_vl,
        qwen3_vl,
        qwen3_vl_moe,
        qwen3_5,
        gemma3,
        gemma4,
        llava,
        llava_onevision,
        vipllava,
        paligemma,
        mistral3,
        internvl,
        idefics3,
        llama4,
    )
} | {"llava_next": llava, "smolvlm": idefics3}


def build(kind, fields, device):
    config = transformers.AutoConfig.for_model(kind, **fields)
    config._experts_implementation = "batched_mm"
    with torch.device(device):
        return transformers.AutoModelForImageTextToText.from_config(config, attn_implementation="eager")


def generate(kind, seed):
    r = random.Random(f"{kind}/{seed}")
    fields = MULTIMODAL[kind](r)
    # The value is found in either place, in both, or in none.
    for place in (fields, fields["text_config"]):
        tied = r.choice([True, False, None])
        if tied is not None:
            place["tie_word_embeddings"] = tied
    return fields


@pytest.mark.parametrize("kind", MULTIMODAL)
def test_parameters_equal_those_of_the_class(kind):
    requests, expected = [], []
    for seed in range(TRIALS):
        fields = generate(kind, seed)
        model = build(kind, fields, "meta")
        requests.append({"config": fields | {"model_type": kind}, "architecture": type(model).__name__, "seq": 4})
        expected.append(sum(p.numel() for p in dict.fromkeys(model.parameters())))
    for request, count, answer in zip(requests, expected, model_probe.ask(requests)):
        assert "error" not in answer, (answer, request)
        got = answer["parameters"]
        assert count in (got, got - answer["by_part"].get("router_bias", 0)), (
            got - count,
            answer["by_part"],
            request["config"],
        )


def image_features(kind, model, inputs):
    if kind == "llama4":
        # Its projector is outside of get_image_features.
        features = model.get_image_features(**inputs, vision_feature_select_strategy="default")
        hidden = getattr(features, "last_hidden_state", features)
        model.multi_modal_projector(hidden.reshape(-1, hidden.shape[-1]))
    elif kind in ("idefics3", "smolvlm"):
        model.model.get_image_features(pixel_values=inputs["pixel_values"].unsqueeze(0) + 1)
    else:
        model.model.get_image_features(**inputs)


@pytest.mark.parametrize(
    "kind",
    [
        "qwen2_vl",
        "qwen2_5_vl",
        "qwen3_vl",
        "qwen3_5",
        "gemma3",
        "gemma4",
        "llava",
        "vipllava",
        "paligemma",
        "internvl",
        "idefics3",
        "smolvlm",
        "llama4",
    ],
)
def test_vision_flop_equals_torch(kind):
    for seed in range(max(1, TRIALS // 5)):
        fields = generate(kind, seed)
        model = build(kind, fields, "cpu").float().eval()
        request = {"config": fields | {"model_type": kind}, "phase": "forward", "seq": 4, "images": 1}
        if kind.startswith("qwen"):
            grid = (1, 4 + 2 * (seed % 3), 6)
            pixels = torch.zeros(grid[0] * grid[1] * grid[2], 3 * 2 * 16)
            inputs = {"pixel_values": pixels, "image_grid_thw": torch.tensor([grid])}
            request["grid"] = list(grid)
        elif kind == "gemma4":
            pooled = fields["vision_config"]["pooling_kernel_size"]
            grid = (1, 2 * pooled, (1 + seed % 3) * pooled)
            inputs = {
                "pixel_values": torch.zeros(1, grid[1] * grid[2], 3 * 16),
                "image_position_ids": torch.tensor([[[x, y] for y in range(grid[1]) for x in range(grid[2])]]),
            }
            request["grid"] = list(grid)
        else:
            side = fields["vision_config"]["image_size"]
            inputs = {"pixel_values": torch.zeros(1, 3, side, side)}
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            image_features(kind, model, inputs)
        with_image, without = model_probe.ask([request, request | {"images": 0}])
        assert "error" not in with_image, with_image
        got = with_image["conventions"]["flopcounter"] - without["conventions"]["flopcounter"]
        assert got == counter.get_total_flops(), (got - counter.get_total_flops(), request)


def test_gemma4_trains_on_a_picture_as_torch_counts():
    for seed in range(TRIALS):
        fields = generate("gemma4", seed) | {"image_token_id": 7}
        model = build("gemma4", fields, "cpu").float()
        pooled, columns = fields["vision_config"]["pooling_kernel_size"], 1 + seed % 3
        height, width, tokens = 2 * pooled, columns * pooled, 2 * columns
        ids = torch.ones(1, tokens + 4, dtype=torch.long)
        ids[0, 1 : 1 + tokens] = 7
        positions = torch.tensor([[[x, y] for y in range(height) for x in range(width)]])
        with FlopCounterMode(display=False) as counter:
            out = model(
                input_ids=ids,
                mm_token_type_ids=(ids == 7).long(),
                pixel_values=torch.zeros(1, height * width, 48),
                image_position_ids=positions,
                use_cache=False,
            )
            forward = counter.get_total_flops()
            out.logits.sum().backward()
        request = {
            "config": fields | {"model_type": "gemma4"},
            "phase": "train",
            "seq": tokens + 4,
            "images": 1,
            "grid": [1, height, width],
        }
        answers = model_probe.ask([request, request | {"phase": "forward"}])
        assert [each["conventions"]["flopcounter"] for each in answers] == [counter.get_total_flops(), forward], request


def contrastive(kind, seed):
    r = random.Random(f"{kind}/{seed}")
    text = families.gpt_neox(r)
    text = {
        k: text[k]
        for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
    }
    text |= {"max_position_embeddings": 12, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}
    fields = {"text_config": text, "vision_config": _tower(r)}
    if kind == "clip":
        fields["projection_dim"] = r.randint(3, 9)
    else:
        text["projection_size"] = fields["vision_config"]["hidden_size"]
    config = transformers.AutoConfig.for_model(kind, **fields)
    config._attn_implementation = "eager"
    return fields, transformers.AutoModel.from_config(config, attn_implementation="eager").float().eval()


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_two_towers_equal_those_of_the_class(kind):
    for seed in range(TRIALS):
        fields, model = contrastive(kind, seed)
        batch, seq, images = 1 + seed % 3, 5 + seed % 4, 1 + seed % 2
        side = fields["vision_config"]["image_size"]
        request = {
            "config": fields | {"model_type": kind},
            "architecture": type(model).__name__,
            "phase": "forward",
            "batch": batch,
            "seq": seq,
            "images": images,
        }
        forward, train = model_probe.ask([request, request | {"phase": "train"}])
        assert "error" not in forward, (forward, request)
        assert forward["parameters"] == sum(p.numel() for p in dict.fromkeys(model.parameters())), (forward, fields)
        counted = []
        for trains in (False, True):
            with torch.set_grad_enabled(trains), FlopCounterMode(display=False) as counter:
                out = model(
                    input_ids=torch.zeros(batch, seq, dtype=torch.long), pixel_values=torch.zeros(images, 3, side, side)
                )
                if trains:
                    out.logits_per_text.sum().backward()
            counted.append(counter.get_total_flops())
        assert [answer["conventions"]["flopcounter"] for answer in (forward, train)] == counted, request
