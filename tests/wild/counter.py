"""Counts the FLOPs of one program twice: as torch's FlopCounterMode does, and as they should be.

    python tests/wild/counter.py PROGRAM RESULT

It writes {"counter": by operator, "expected": by operator} to RESULT. For `expected`, this file has formulas for what
the counter leaves out: products with vectors, fused attention on the CPU, recurrent layers, products in place, and the
groups of a convolution. They follow from the definitions and share nothing with mfu's.
"""

import json
import runpy
import sys
from math import prod

import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry

aten = torch.ops.aten
added = {}  # by the name that mfu gives the operator


def pairs(query, key, causal):
    *outer, queries, _ = query
    keys = key[-2]
    seen = sum(min(i + 1, keys) for i in range(queries)) if causal else queries * keys
    return prod(outer) * seen


def attention(query, key, value, dropout=0.0, causal=False, **_):
    return 2 * pairs(query, key, causal) * (key[-1] + value[-1])


def attention_backward(gradient, query, key, value, out, sums, dropout=0.0, causal=False, **_):
    # Five products: the scores again, and the gradients of probabilities, values, queries and keys.
    return 2 * pairs(query, key, causal) * (3 * key[-1] + 2 * value[-1])


def recurrent(x, inner, outer, *_, **__):
    return 2 * x[0] * x[1] * (prod(inner) + prod(outer))


def recurrent_backward(x, inner, outer, *_, **__):
    return 2 * recurrent(x, inner, outer)


def convolution_backward(gradient, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
                         output_mask, **_):
    # A weight has only the channels of one group, and each of its elements is used once for each position.
    positions = prod((x if transposed else gradient)[2:]) * x[0]
    return 2 * prod(weight) * positions * sum(map(bool, output_mask[:2]))


FORMULAS = {
    "mv": ("mv", lambda a, b, **_: 2 * prod(a)),
    "addmv": ("addmv", lambda x, a, b, **_: 2 * prod(a)),
    "addmv_": ("addmv", lambda x, a, b, **_: 2 * prod(a)),
    "dot": ("dot", lambda a, b, **_: 2 * prod(a)),
    "vdot": ("vdot", lambda a, b, **_: 2 * prod(a)),
    "addmm_": ("addmm", lambda x, a, b, **_: 2 * prod(a) * b[-1]),
    "baddbmm_": ("baddbmm", lambda x, a, b, **_: 2 * prod(a) * b[-1]),
    "_scaled_dot_product_flash_attention_for_cpu": ("_scaled_dot_product_flash_attention_for_cpu", attention),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (
        "_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward),
    "mkldnn_rnn_layer": ("mkldnn_rnn_layer", recurrent),
    "mkldnn_rnn_layer_backward": ("mkldnn_rnn_layer_backward", recurrent_backward),
    "convolution_backward": ("convolution_backward", convolution_backward),
}


def mapping():
    """Formulas for FlopCounterMode. They change nothing that it counts, and add up in `added` what should be."""

    def of(packet, name, formula):
        own = flop_registry.get(packet)

        def both(*args, out_val=None, **kwargs):
            def shape(value):
                if isinstance(value, torch.Tensor):
                    return tuple(value.shape)
                return type(value)(map(shape, value)) if isinstance(value, (list, tuple)) else value

            sizes, named = [shape(each) for each in args], {key: shape(each) for key, each in kwargs.items()}
            added[name] = added.get(name, 0) + formula(*sizes, **named)
            return own(*args, **kwargs, out_val=out_val) if own is not None else 0

        both._get_raw = True
        return both

    found = {}
    for operator, (name, formula) in FORMULAS.items():
        packet = getattr(aten, operator, None)
        if packet is not None:
            found[packet] = of(packet, f"aten::{name}", formula)
    return found


def main():
    program, result = sys.argv[1:3]
    sys.argv = sys.argv[1:]
    with FlopCounterMode(display=False, custom_mapping=mapping()) as mode:
        runpy.run_path(program, run_name="__main__")
    counter = {str(name).replace(".", "::"): count for name, count in mode.get_flop_counts()["Global"].items() if count}
    expected = dict(counter)
    for name in ("aten::convolution_backward",):
        expected.pop(name, None)
    for name, flop in added.items():
        expected[name] = expected.get(name, 0) + flop
    with open(result, "w") as file:
        json.dump({"counter": counter, "expected": {name: flop for name, flop in expected.items() if flop}}, file)


if __name__ == "__main__":
    main()
