"""Counts with torch's FlopCounterMode what a class computes when it is given the same inputs. tests/models/sweep.py
compares mfu with it. Nothing of mfu is used here.

It runs in a fork that has imported torch and transformers. Small models run for real on the CPU, large ones on the meta
device. Attention is eager (or torch's math backend) and experts are batched products, because FlopCounterMode has
formulas for these."""

import json
import os
import random

MOST_REAL = (40_000_000, 3_000_000_000)  # at most this many parameters and FLOPs
MOST_REAL_ELSE = (200_000_000, 20_000_000_000)  # the same for models that the meta device cannot run
PREDICTED = (
    "logits",
    "pred",
    "sample",
    "boxes",
    "reconstruct",
    "spectrogram",
    "waveform",
    "scores",
    "start",
    "end",
    "depth",
    "mask",
)
NOT_PREDICTED = (
    "past_key_values",
    "hidden_states",
    "attentions",
    "cross_attentions",
    "encoder_",
    "decoder_hidden",
    "vision_model_output",
    "text_model_output",
)


def all_configs(config):
    yield config
    for each in list(vars(config).values()):
        if hasattr(each, "to_dict") and hasattr(each, "model_type"):
            yield from all_configs(each)


def build(torch, asked, device):
    # Validation reads values, and meta tensors have none.
    torch.distributions.Distribution.set_default_validate_args(False)
    if asked["library"] == "diffusers":
        import diffusers

        with torch.device(device):
            return getattr(diffusers, asked["architecture"]).from_config(asked["config"]).eval()
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    transformers.logging.set_verbosity_error()
    found = getattr(transformers, asked["architecture"], None)
    config_class = CONFIG_MAPPING[asked["type"]]
    if found is None:
        import importlib

        found = getattr(
            importlib.import_module(config_class.__module__.replace("configuration_", "modeling_")),
            asked["architecture"],
        )
    problem = None
    for attention in ("eager", "sdpa"):
        config = config_class.from_dict(asked["config"])
        for each in all_configs(config):
            each._experts_implementation_internal = "batched_mm"
            for name in list(vars(each)):
                if "layerdrop" in name or name == "drop_path_rate":
                    setattr(each, name, 0.0)
        config._attn_implementation = attention
        try:
            with torch.device(device):
                model = found._from_config(config, dtype=torch.float32)
            # Set only now: with 0 from the start, the model would lack the weight that replaces masked inputs.
            for part in model.modules():
                if getattr(part, "config", None) is not None:
                    part.config.mask_time_prob = part.config.mask_feature_prob = 0.0
            return model
        except ValueError as error:
            problem = error
    raise problem


def given_to(torch, asked, model, device):
    special = set()
    configs = list(all_configs(model.config)) if hasattr(model.config, "to_dict") else []
    for each in configs:
        for name, value in vars(each).items():
            if "token" in name:
                special.update(
                    one for one in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(one, int)
                )
    vocabulary = min(
        [each.vocab_size for each in configs if isinstance(getattr(each, "vocab_size", None), int)] or [50]
    )
    plain = [each for each in range(5, min(vocabulary, 900)) if each not in special] or [0]
    made, batch = {}, asked["batch"]
    for name, sizes in asked["tensors"].items():
        if "grid_thw" in name:
            patches = next(each for each in ("pixel_values", "hidden_states") if each in asked["tensors"])
            side = round((asked["tensors"][patches][0] // batch) ** 0.5)
            made[name] = torch.tensor([[1, side, side]] * sizes[0])
        elif name.endswith(("ids", "labels")) or name == "bbox":
            count = 1
            for size in sizes:
                count *= size
            made[name] = torch.tensor(
                [0 if name == "bbox" or "type_ids" in name else random.choice(plain) for _ in range(count)],
                dtype=torch.long,
            ).reshape(sizes)
        elif name.endswith("mask") and name != "padding_mask":
            made[name] = torch.ones(sizes, dtype=torch.long)
        else:
            made[name] = torch.randn(sizes)
    return {name: each.to(device) for name, each in made.items()}


def nested(given):
    """Puts names with a dot into dictionaries: added_cond_kwargs.time_ids becomes an entry of added_cond_kwargs."""
    made = {}
    for name, each in given.items():
        outer, _, inner = name.partition(".")
        if inner:
            made.setdefault(outer, {})[inner] = each
        else:
            made[name] = each
    return made


def plain_arguments(asked, taken):
    """Arguments of models of diffusers that are not tensors."""
    if asked["library"] != "diffusers":
        return {}
    high, wide, frames = asked["latent"]
    made = {
        "num_frames": frames,
        "height": high,
        "width": wide,
        "img_shapes": [[(frames, high // 2, wide // 2)]] * asked["batch"],
    }
    if "added_cond_kwargs" in taken and not any(name.startswith("added_cond_kwargs") for name in asked["tensors"]):
        made["added_cond_kwargs"] = {"resolution": None, "aspect_ratio": None}
    return {name: each for name, each in made.items() if name in taken and (name != "num_frames" or "height" in taken)}


def floats_in(torch, value):
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() and value.grad_fn is not None else []
    if isinstance(value, dict):
        value = list(value.values())
    return [each for inner in value for each in floats_in(torch, inner)] if isinstance(value, (list, tuple)) else []


def predicted(torch, result):
    named = (
        list(result.items())
        if hasattr(result, "items")
        else list(enumerate(result if isinstance(result, (tuple, list)) else [result]))
    )
    named = [(str(name), each) for name, each in named if not str(name).startswith(NOT_PREDICTED)]
    found = [
        each for name, inner in named if any(word in name for word in PREDICTED) for each in floats_in(torch, inner)
    ]
    return found or [each for _, inner in named for each in floats_in(torch, inner)][:1]


def count(torch, asked, device):
    import inspect
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    class Zeros(TorchDispatchMode):
        """Gives 0 where a model reads a value of a tensor on the meta device."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if device == "meta" and func._schema.name == "aten::_local_scalar_dense":
                return False if args[0].dtype == torch.bool else 0
            return func(*args, **(kwargs or {}))

    model = build(torch, asked, device)
    phase, taken = asked["phase"], inspect.signature(model.forward).parameters
    caches = phase in ("prefill", "decode")
    more = {"use_cache": caches} if "use_cache" in taken else {}
    if caches and "logits_to_keep" in taken:
        more["logits_to_keep"] = 1
    model.train(phase == "train")
    given, counter = nested(given_to(torch, asked, model, device)), FlopCounterMode(display=False)
    given |= plain_arguments(asked, taken)
    with Zeros(), sdpa_kernel(SDPBackend.MATH), torch.device(device):
        if phase == "train":
            with counter:
                outputs = predicted(torch, model(**given, **more))
                torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs])
        elif phase == "decode":
            with torch.no_grad():
                text = (
                    "decoder_input_ids"
                    if "decoder_input_ids" in taken and model.config.is_encoder_decoder
                    else "input_ids"
                )
                context = {
                    text: torch.full(
                        (asked["batch"], asked["context"]), int(given[text].flatten()[0]) if device != "meta" else 0
                    )
                }
                if text == "decoder_input_ids":
                    context |= asked_encoder(torch, asked, model, device)
                past = model(**context, use_cache=True)
                name = next(
                    each
                    for each in ("past_key_values", "cache_params", "state", "past_buckets_states")
                    if getattr(past, each, None) is not None
                )
                more[name] = getattr(past, name)
                if text == "decoder_input_ids":
                    from transformers.modeling_outputs import BaseModelOutput

                    try:
                        more["encoder_outputs"] = model.get_encoder()(
                            **{name: each for name, each in context.items() if name != text}
                        )
                    except Exception:
                        more["encoder_outputs"] = BaseModelOutput(last_hidden_state=past.encoder_last_hidden_state)
                with counter:
                    model(**given, **more)
        else:
            with torch.no_grad(), counter:
                model(**given, **more)
    kept = set(model.state_dict())
    router = sum(
        each.numel()
        for name, each in model.named_buffers()
        if name in kept and name.rsplit(".", 1)[-1] in ("e_score_correction_bias", "expert_bias", "expert_biases")
    )
    parameters = (
        model.num_parameters() if hasattr(model, "num_parameters") else sum(each.numel() for each in model.parameters())
    )
    return {
        "parameters": parameters,
        "router_bias": router,
        "total": counter.get_total_flops(),
        "how": device,
        "by": {str(name): value for name, value in counter.get_flop_counts().get("Global", {}).items()},
    }


def asked_encoder(torch, asked, model, device):
    """The encoder's inputs: those of the first phase's answer, without the decoder's."""
    inner = dict(
        asked, tensors={name: sizes for name, sizes in asked["encoder"].items() if name != "decoder_input_ids"}
    )
    return given_to(torch, inner, model, device)


def one(torch, asked):
    problems = []
    fits = lambda most: asked["parameters"] <= most[0] and asked["flop"] <= most[1]  # noqa: E731
    real = fits(MOST_REAL)
    for device in ("cpu", "meta") if real else ("meta", "cpu"):
        if device == "cpu" and not fits(MOST_REAL_ELSE):
            continue
        try:
            return count(torch, asked, device)
        except Exception as problem:  # the class does not run on this device
            problems.append(
                f"{device}: {type(problem).__name__}: {(str(problem).strip().splitlines() or [''])[0][:200]}"
            )
    return {"problem": "; ".join(problems)}


def main(text):
    import torch

    torch.set_num_threads(1)
    random.seed(0)
    autocast = torch.autocast.__init__
    torch.autocast.__init__ = lambda self, kind, *args, **kwargs: autocast(
        self, "cpu" if kind == "meta" else kind, *args, **kwargs
    )
    print(json.dumps([one(torch, asked) for asked in json.loads(text)]), flush=True)
    os._exit(0)
