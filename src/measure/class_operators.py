"""What a class runs, operator by operator: the first half of the script that ask_class.py ends (measure/class_need.cc joins them)."""

import json
import os
import sys


class Refused(Exception):
    """What a person should be told."""


# What a module or a weight belongs to, by the words of its name: the first that fits, from the inside out.
PARTS = (
    ("router_bias", ("e_score_correction_bias", "expert_bias", "expert_biases")),
    ("shared_experts", ("shared_expert", "shared_experts", "shared_mlp")),
    ("router", ("router", "gate.wg", "gate.classifier")),
    ("experts", ("experts",)),
    ("norm", ("norm", "layernorm", "layer_norm", "ln", "ln_f", "groupnorm", "batchnorm", "bn")),
)


def part_of(name, kind=""):
    words = name.lower().replace("-", "_").split(".")
    whole = ".".join(words)
    for part, needles in PARTS[:4]:
        if any(needle in words or any(word.endswith(needle) for word in words) or ("." in needle and needle in whole) for needle in needles):
            return part
    last = words[-1] if words else ""
    if any(word in ("gate", "wg") for word in words[-2:]) and any("mlp" in word or "moe" in word or "feed_forward" in word for word in words):
        return "router"
    if any("mtp" in word or "nextn" in word for word in words):
        return "mtp"
    if any("norm" in word or word in ("ln", "ln_f", "bn") for word in words[-2:]):
        return "norm"
    if words and words[0] in ("lm_head", "embed_out", "output_projection") or last == "lm_head" or "lm_head" in words:
        return "lm_head"
    if any(word.startswith(("vision", "visual", "image", "pixel", "vit", "siglip")) for word in words):
        return "vision"
    if any(word.startswith(("audio", "speech", "sound")) for word in words):
        return "audio"
    if any("adaln" in word or "time_emb" in word or "time_text" in word or "modulation" in word for word in words):
        return "modulation"
    if any("position" in word and "embed" in word or word in ("wpe", "embed_positions", "pos_embed") for word in words):
        return "position_embedding"
    if any("embed" in word or word in ("wte", "shared") for word in words):
        return "embedding"
    if any("attn" in word or "attention" in word or word in ("attn", "mha") for word in words):
        return "attention_projections"
    if any("mamba" in word or "ssm" in word or "conv" in word or "mixer" in word or "recurrent" in word for word in words):
        return "ssm"
    if any(word in ("score", "classifier", "head", "heads", "pooler", "qa_outputs", "cls") or word.endswith("_head") for word in words):
        return "head"
    return "mlp"


NAMES = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def dtype_name(dtype):
    name = str(dtype).removeprefix("torch.")
    return NAMES.get(name, name)


class Recorder:
    """Each different operator once."""

    def __init__(self, torch):
        self.torch, self.rows, self.stack, self.assumed, self.on = torch, {}, [], set(), True

    def part(self):
        node = self.torch._C._current_autograd_node()
        if node is not None:
            return node.metadata.get("mfu_part", self.outer()), True
        return self.outer(), False

    def outer(self):
        return part_of(self.stack[-1]) if self.stack else "mlp"

    def argument(self, value):
        torch = self.torch
        if isinstance(value, torch.Tensor):
            return {"tensor": list(value.shape), "type": dtype_name(value.dtype)}
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return value if value == value and abs(value) < 1e300 else {"unknown": 1}
        if isinstance(value, (list, tuple)) and all(isinstance(each, (bool, int)) for each in value):
            return {"list": [int(each) for each in value]}
        return {"tensors": 1} if isinstance(value, (list, tuple)) else {"unknown": 1}

    def add(self, name, arguments, result=None):
        if not self.on:
            return
        part, backward = self.part()
        row = {"op": name, "part": part, "backward": backward, "args": arguments}
        if result is not None:
            row["result"] = result
        key = json.dumps(row)
        if key in self.rows:
            self.rows[key]["calls"] += 1
        elif len(self.rows) < 20_000:
            self.rows[key] = row | {"calls": 1}
        else:
            raise Refused("it runs more than 20,000 different operators")


def modes(torch, recorder):
    """What sees operators below autograd, and what marks autograd's nodes with the part that made them."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    skipped = {"aten::detach", "aten::view", "aten::t", "aten::transpose", "aten::expand", "aten::_unsafe_view", "aten::clone", "aten::permute",
               "aten::slice", "aten::unsqueeze", "aten::select", "aten::add", "aten::mul", "aten::empty", "aten::reshape", "aten::squeeze", "aten::alias"}

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            name = func._schema.name
            if name == "aten::_local_scalar_dense":
                recorder.assumed.add("values that the class reads from its inputs are taken as 0")
                return False if args[0].dtype == torch.bool else 0
            if name in ("aten::equal", "aten::is_nonzero"):
                recorder.assumed.add("values that the class reads from its inputs are taken as 0")
                return False
            result = func(*args, **kwargs)
            if recorder.on and name not in skipped:
                listed = [kwargs[a.name] if a.name in kwargs else args[i] if i < len(args) else a.default_value
                          for i, a in enumerate(func._schema.arguments)]
                first = result[0] if isinstance(result, (tuple, list)) and result else result
                recorder.add(name, [recorder.argument(each) for each in listed],
                             recorder.argument(first) if isinstance(first, torch.Tensor) else None)
            return result

    class Marks(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func is torch.nn.functional.scaled_dot_product_attention:
                return fused(torch, recorder, *args, **kwargs)
            result = func(*args, **kwargs)
            if recorder.stack:
                for each in result if isinstance(result, (tuple, list)) else (result,):
                    if isinstance(each, torch.Tensor) and each.grad_fn is not None:
                        mark(each.grad_fn, recorder.outer())
            return result

    return Operators(), Marks()


def mark(node, part):
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at is None or "mfu_part" in at.metadata or at.name().endswith("AccumulateGrad"):
            continue
        at.metadata["mfu_part"] = part
        waiting.extend(each for each, _ in at.next_functions)


AREAS = {}  # of mask tensors, by their storage: pairs attended of one sequence, of one head


def storage_of(tensor):
    return tensor.untyped_storage()._cdata


def pairs_of(query, key, mask, causal):
    """Attended pairs of all sequences, one head; and whether that is known."""
    rows, columns = query.shape[-2], key.shape[-2]
    batch = 1
    for size in query.shape[:-3]:
        batch *= size
    if mask is not None:
        area = AREAS.get(storage_of(mask))
        if area is not None and area[1:] == (rows, columns):
            return batch * area[0], True
        return batch * rows * columns, False
    if causal:  # torch's: the first row sees the first key
        seen = min(rows, columns)
        return batch * (seen * (seen + 1) // 2 + max(0, rows - columns) * columns), True
    return batch * rows * columns, True


def fused(torch, recorder, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    pairs, known = pairs_of(query, key, attn_mask, is_causal)
    if not known:
        recorder.assumed.add("an attention's mask is a tensor whose values are not known: all pairs are counted")
    row = {"pairs": pairs, "heads": query.shape[-3], "qk": query.shape[-1], "v": value.shape[-1], "t": dtype_name(query.dtype)}

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(context, query, key, value):
            context.shapes = query, key, value
            recorder.add("attention", [row])
            return query.new_empty((*query.shape[:-1], value.shape[-1]))

        @staticmethod
        def backward(context, gradient):
            recorder.add("attention_backward", [row])
            return tuple(torch.empty_like(each) for each in context.shapes)

    return Attention.apply(query, key, value)


def masks(torch, transformers, recorder):
    """Registers an attention of ours: fused, with masks whose true area is worked out from the rule that makes them."""
    from transformers import masking_utils
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    made = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["sdpa"]

    def area(rule, rows, columns, first, offset):
        if rows * columns > 1 << 28:
            return None
        pairs = 0
        with torch.device("cpu"), torch.utils._python_dispatch._disable_current_modes():
            keys = torch.arange(columns) + offset
            zero = torch.zeros((), dtype=torch.long)
            for start in range(0, rows, 512):
                queries = torch.arange(start, min(rows, start + 512)) + first
                seen = rule(zero, zero, queries[:, None], keys[None, :])
                seen = torch.as_tensor(seen).expand(queries.shape[0], columns)
                pairs += int(seen.sum())
        return pairs

    def mask(*args, **kwargs):
        import inspect
        bound = inspect.signature(made).bind(*args, **kwargs).arguments
        rows, first = bound.get("q_length"), bound.get("q_offset", 0)
        position = bound.get("cache_position")
        if rows is None and position is not None:
            rows, first = position.shape[0], bound.get("kv_length") - position.shape[0]
        rule = bound.get("mask_function", masking_utils.causal_mask_function)
        columns, offset = bound["kv_length"], bound.get("kv_offset", 0)
        batch = bound["batch_size"]
        result = torch.empty((batch, 1, rows, columns), dtype=torch.bool, device="meta")
        try:
            pairs = area(rule, int(rows), int(columns), int(first), int(offset))
        except Exception:  # a rule that looks at a tensor's values
            pairs = None
        if pairs is not None:
            AREAS[storage_of(result)] = (pairs, int(rows), int(columns))
            KEPT.append(result)
        return result

    def attention(module, query, key, value, attention_mask=None, scaling=None, is_causal=None, **_):
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        causal = bool(causal) and query.shape[2] > 1 and attention_mask is None
        result = fused(torch, recorder, query, key, value, attention_mask, is_causal=causal)
        return result.transpose(1, 2).contiguous(), None

    if hasattr(masking_utils, "find_packed_sequence_indices"):
        masking_utils.find_packed_sequence_indices = lambda *_, **__: None  # no row holds several sequences
    ALL_ATTENTION_FUNCTIONS.register("mfu", attention)
    masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register("mfu", mask)


KEPT = []  # masks stay alive, so that no other gets their storage
