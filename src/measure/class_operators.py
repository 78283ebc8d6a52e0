"""Records what a class runs, operator by operator. This is the first part of the script that ends with ask_class.py;
measure/class_need.cc joins the parts."""

import json
import os
import sys


class Refused(Exception):
    """Its message is for the user."""


# The part that a module or a weight belongs to, by the words of its name. The first match counts, from inside to
# outside.
PARTS = (
    ("router_bias", ("e_score_correction_bias", "expert_bias", "expert_biases")),
    ("shared_experts", ("shared_expert", "shared_experts", "shared_mlp")),
    ("router", ("router", "gate.wg", "gate.classifier", "shared_expert_gate")),
    ("experts", ("experts",)),
    ("norm", ("norm", "layernorm", "layer_norm", "ln", "ln_f", "groupnorm", "batchnorm", "bn")),
)


ADAPTER = "(adapter)"  # the name on the stack while one of our adapters is computed
OUTPUTS = set()  # modules that make logits, according to the class
QUERIES = ("q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj", "query", "key", "value", "c_attn", "query_key_value")
INNER = ("up_proj", "down_proj", "gate_proj", "gate_up_proj", "fc1", "fc2", "c_fc")
STATES = ("mamba", "ssm", "mixer", "recurrent", "linear_attn", "short_conv", "temporal_block", "rg_lru", "rwkv")


def part_of(name, kind=""):
    if name == ADAPTER:
        return "adapter"
    words = name.lower().replace("-", "_").split(".")
    whole = ".".join(words)
    for part, needles in PARTS[:4]:
        if any(
            needle in words or any(word.endswith(needle) for word in words) or ("." in needle and needle in whole)
            for needle in needles
        ):
            return part
    last = words[-1] if words else ""
    if any(word in ("gate", "wg") for word in words[-2:]) and any(
        "mlp" in word or "moe" in word or "feed_forward" in word for word in words
    ):
        return "router"
    if any("mtp" in word or "nextn" in word for word in words):
        return "mtp"
    if any("norm" in word or word in ("ln", "ln_f", "bn") for word in words[-2:]):
        return "norm"
    if words[0] in ("lm_head", "embed_out", "output_projection") or "lm_head" in words:
        return "lm_head"
    if name in OUTPUTS or name.rpartition(".")[0] in OUTPUTS and last in ("weight", "bias"):
        return "lm_head"
    return inner_part(words, last)


def inner_part(words, last):
    """The part of a weight that is neither a router, a norm nor a head for logits."""
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
    if "indexer" in words:
        return "indexer"
    own = words[:-1] if last in ("weight", "bias") else words
    states = any(each in word for word in own for each in STATES) or "conv" in own[:-1] and "layers" in own
    if own and own[-1] in QUERIES and states:
        return "attention_projections"
    if own and own[-1] in INNER and states:
        return "mlp"
    attention = [i for i, word in enumerate(words) if "attn" in word or "attention" in word or word == "mha"]
    inside = [i for i, word in enumerate(words) if word in ("ff", "ffn", "mlp", "feed_forward", "ff_context")]
    if not states and attention:
        return "mlp" if inside and inside[-1] > attention[-1] else "attention_projections"
    if states:
        return "ssm"
    if any("conv" in word for word in own[-2:]):
        return "convolution"
    if any(
        word in ("score", "classifier", "head", "heads", "pooler", "qa_outputs", "cls") or word.endswith("_head")
        for word in words
    ):
        return "head"
    return "mlp"


NAMES = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def dtype_name(dtype):
    name = str(dtype).removeprefix("torch.")
    return NAMES.get(name, name)


class Recorder:
    """Records each different operator once, with its number of calls."""

    def __init__(self, torch):
        self.torch, self.rows, self.stack, self.assumed, self.on = torch, {}, [], set(), True
        self.seen = 0  # operators of this call, counted or not
        self.layers = []  # for each layer that is running: whether a backward pass reaches it
        self.kept = {}  # rows of finished steps

    def again(self):
        """Forgets what a failed call recorded."""
        if self.on:
            self.rows.clear()
        self.stack.clear()
        self.layers.clear()
        self.seen = 0

    def done(self):
        """Adds the rows of a finished step to those of the steps before."""
        for key, row in self.rows.items():
            kept = self.kept.setdefault(key, row | {"calls": 0})
            kept["calls"] += row["calls"]
        self.rows = {}

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
        if not backward and any(self.layers):
            row["again"] = True
        if result is not None:
            row["result"] = result
        key = json.dumps(row)
        if key in self.rows:
            self.rows[key]["calls"] += 1
        elif len(self.rows) < 20_000:
            self.rows[key] = row | {"calls": 1}
        else:
            raise Refused("it runs more than 20,000 different operators")


def modes(torch, recorder, values):
    """One mode sees the operators below autograd. The other marks autograd's nodes with the part that made them."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    def read(tensor, what):
        twin = values.of(tensor)
        if twin is not None:
            return what(twin)
        recorder.assumed.add("a value that the class reads from its activations is taken as 0")
        return False if tensor.dtype == torch.bool else 0.0 if tensor.is_floating_point() else 0

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            recorder.seen += 1
            name = func._schema.name
            if name in ("aten::_local_scalar_dense", "aten::item"):
                return read(args[0], lambda twin: twin.item())
            if name in ("aten::equal", "aten::is_nonzero", "aten::allclose"):
                if all(values.known(each) for each in tensors_of(torch, args)):
                    return values.run(func, args, kwargs)
                recorder.assumed.add("a value that the class reads from its activations is taken as 0")
                return False
            if (
                name == "aten::_to_copy"
                and args[0].device.type == "meta"
                and torch.device(kwargs.get("device") or "meta").type == "cpu"
            ):
                kwargs = dict(kwargs, device=torch.device("cpu" if values.known(args[0]) else "meta"))
                return func(values.of(args[0]) if values.known(args[0]) else args[0], **kwargs)
            try:
                result = func(*args, **kwargs)
            except (RuntimeError, NotImplementedError) as problem:  # it needs values, or tensors of two devices
                result = mixed(func, name, args, kwargs, problem)
            if recorder.on and find_cost(name):
                listed = [
                    kwargs[a.name] if a.name in kwargs else args[i] if i < len(args) else a.default_value
                    for i, a in enumerate(func._schema.arguments)
                ]
                first = result[0] if isinstance(result, (tuple, list)) and result else result
                recorder.add(
                    name,
                    [recorder.argument(each) for each in listed],
                    recorder.argument(first) if isinstance(first, torch.Tensor) else None,
                )
            elif name not in UNVALUED:
                values.follow(func, name, args, kwargs, result)
            return result

    def mixed(func, name, args, kwargs, problem):
        both = {each.device.type for each in tensors_of(torch, args)}
        if both == {"cpu", "meta"} and not func._schema.is_mutable:
            on_meta = lambda each: (
                values.made(each)
                if isinstance(each, torch.Tensor) and each.device.type == "cpu"
                # noqa: E731
                else (
                    [on_meta(inner) for inner in each]
                    if isinstance(each, (list, tuple)) and any(isinstance(i, torch.Tensor) for i in each)
                    else each
                )
            )
            args = tuple(on_meta(each) for each in args)
            try:
                return func(*args, **kwargs)
            except (RuntimeError, NotImplementedError) as again:
                problem = again
        return values.rescue(func, name, args, kwargs, problem)

    class Marks(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func is torch.nn.functional.scaled_dot_product_attention:
                return fused(torch, recorder, values, *args, **kwargs)
            if func in (torch.tensor, torch.as_tensor) and torch.device(kwargs.get("device") or "cpu").type == "meta":
                return listed(func, args, kwargs)
            result = func(*args, **kwargs)
            if recorder.stack:
                for each in result if isinstance(result, (tuple, list)) else (result,):
                    if isinstance(each, torch.Tensor) and each.grad_fn is not None:
                        mark(each.grad_fn, recorder.outer())
            return result

    def listed(func, args, kwargs):
        if args and isinstance(args[0], torch.Tensor):
            return func(*args, **kwargs)
        try:
            return func(*args, **(kwargs | {"device": "cpu"})).to("meta")
        except Exception:  # for tensors whose values are not known
            return func(*args, **kwargs)

    return Operators(), Marks()


UNVALUED = set("""
    aten::detach aten::view aten::t aten::transpose aten::expand aten::_unsafe_view aten::permute aten::slice
    aten::unsqueeze aten::select aten::squeeze aten::alias aten::split aten::split_with_sizes aten::unbind
    aten::native_layer_norm aten::_softmax aten::native_dropout aten::silu aten::gelu aten::embedding
""".split())
PRODUCTS = """
    mm conv attention linear matmul mv dot solve rnn lstm gru einsum bilinear cdist addbmm addr ger outer fft
    grid_sampler lu cholesky inv svd qr eig
""".split()
COSTS = {}


def find_cost(name):
    """Whether an operator may multiply. src/ops says what it costs."""
    if name not in COSTS:
        COSTS[name] = not name.startswith("aten::") or any(word in name for word in PRODUCTS)
    return COSTS[name]


def mark(node, part):
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at is None or "mfu_part" in at.metadata or at.name().endswith("AccumulateGrad"):
            continue
        at.metadata["mfu_part"] = part
        waiting.extend(each for each, _ in at.next_functions)
