"""Fused attention: pairs are counted by drawing the mask, the backward is five matmuls, and torch's own formulas must
agree if nothing is masked."""

import os
import random

import pytest

torch = pytest.importorskip("torch")
from torch.utils import flop_counter  # noqa: E402

import ops_probe  # noqa: E402
from ops_probe import T, request  # noqa: E402
from test_ops_formulas import check  # noqa: E402

TRIALS = int(os.environ.get("MFU_OPS_TRIALS", "40"))
pytestmark = pytest.mark.skipif(ops_probe.find_probe() is None, reason="mfu_ops_probe is not built")


def drawn_pairs(queries, keys, causal, bottom_right, left=None, right=None):
    i, j = torch.arange(queries)[:, None], torch.arange(keys)[None, :]
    at = i + (keys - queries if bottom_right else 0)
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if causal:
        seen &= j <= at
    if right is not None and right >= 0 and not causal:
        seen &= j <= at + right
    if left is not None and left >= 0:
        seen &= j >= at - left
    return int(seen.sum())


def forward(pairs, dqk, dv):
    return 2 * pairs * (dqk + dv)


def backward(pairs, dqk, dv):
    """Hardware computes the scores again, the model does not."""
    return 2 * pairs * (3 * dqk + 2 * dv), 2 * pairs * (2 * dqk + 2 * dv)


def shapes(r):
    batch, groups, kv_heads, queries, keys, dqk, dv = (r.randint(1, 6) for _ in range(7))
    return {"b": batch, "h": groups * kv_heads, "hk": kv_heads, "q": queries * 3, "k": keys * 3, "dqk": dqk, "dv": dv}


# name, its causal argument, its mask argument
HEADS_SECOND = [
    ("aten::_scaled_dot_product_flash_attention", None),
    ("aten::_scaled_dot_product_flash_attention_for_cpu", "attn_mask"),
    ("aten::_scaled_dot_product_efficient_attention", "attn_bias"),
    ("aten::_scaled_dot_product_cudnn_attention", "attn_bias"),
    ("aten::_scaled_dot_product_fused_attention_overrideable", "attn_bias"),
    ("aten::scaled_dot_product_attention", "attn_mask"),
    ("aten::_scaled_dot_product_attention_math_for_mps", "attn_mask"),
    ("aten::_cudnn_attention_forward", "attn_bias"),
]
HEADS_SECOND_BACKWARD = [
    ("aten::_scaled_dot_product_flash_attention_backward", "grad_out", None),
    ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", "grad_out", "attn_mask"),
    ("aten::_scaled_dot_product_efficient_attention_backward", "grad_out_", "attn_bias"),
    ("aten::_scaled_dot_product_cudnn_attention_backward", "grad_out", "attn_bias"),
    ("aten::_scaled_dot_product_fused_attention_overrideable_backward", "grad_out", "attn_bias"),
    ("aten::_cudnn_attention_backward", "grad_out", "attn_bias"),
]


def test_torch_attention_in_every_form():
    cases = []
    for seed in range(TRIALS):
        r = random.Random(f"sdpa/{seed}")
        s = shapes(r)
        q, k, v = (
            T(s["b"], s["h"], s["q"], s["dqk"]),
            T(s["b"], s["hk"], s["k"], s["dqk"]),
            T(s["b"], s["hk"], s["k"], s["dv"]),
        )
        out = T(s["b"], s["h"], s["q"], s["dv"])
        for causal in (False, True):
            pairs = s["b"] * s["h"] * drawn_pairs(s["q"], s["k"], causal, False)
            if not causal:
                assert forward(pairs, s["dqk"], s["dv"]) == flop_counter.sdpa_flop_count(q.sizes, k.sizes, v.sizes)
                assert backward(pairs, s["dqk"], s["dv"])[0] == flop_counter.sdpa_backward_flop_count(
                    out.sizes, q.sizes, k.sizes, v.sizes
                )
            for name, mask in HEADS_SECOND:
                given = {mask: T(s["q"], s["k"])} if mask and not causal and r.random() < 0.5 else {}
                cases.append(
                    (
                        request(name, query=q, key=k, value=v, is_causal=causal, **given),
                        forward(pairs, s["dqk"], s["dv"]),
                    )
                )
            for name, grad, mask in HEADS_SECOND_BACKWARD:
                given = {mask: T(s["q"], s["k"])} if mask and not causal and r.random() < 0.5 else {}
                cases.append(
                    (
                        request(name, query=q, key=k, value=v, is_causal=causal, **{grad: out}, **given),
                        *backward(pairs, s["dqk"], s["dv"]),
                    )
                )
    check(cases)


def test_a_mask_given_as_a_tensor_is_noted():
    q = T(1, 2, 8, 4)
    masked, plain, causal = ops_probe.ask(
        [
            request("aten::_scaled_dot_product_flash_attention_for_cpu", query=q, key=q, value=q, attn_mask=T(8, 8)),
            request("aten::_scaled_dot_product_flash_attention_for_cpu", query=q, key=q, value=q),
            {
                "operator": "aten::_scaled_dot_product_flash_attention_for_cpu",
                "arguments": [*([ops_probe.encode(q)] * 3), 0.0, {"unknown": 1}],
            },
        ]
    )
    assert "mask" in masked["note"] and plain["note"] == "" and "causal" in causal["note"]
    assert masked["hardware"] == plain["hardware"] == causal["hardware"]


def windows(r, s):
    return r.choice([-1, None, r.randint(0, s["k"])]), r.choice([-1, None, r.randint(0, s["k"])])


def test_flash_kernels_align_at_the_bottom_right_and_know_windows():
    cases = []
    for seed in range(TRIALS * 2):
        r = random.Random(f"flash/{seed}")
        s = shapes(r)
        q, k, v = (
            T(s["b"], s["q"], s["h"], s["dqk"]),
            T(s["b"], s["k"], s["hk"], s["dqk"]),
            T(s["b"], s["k"], s["hk"], s["dv"]),
        )
        out = T(s["b"], s["q"], s["h"], s["dv"])
        causal, (left, right) = r.random() < 0.5, windows(r, s)
        pairs = s["b"] * s["h"] * drawn_pairs(s["q"], s["k"], causal, True, left, right)
        ahead, behind = forward(pairs, s["dqk"], s["dv"]), backward(pairs, s["dqk"], s["dv"])
        window = {"window_size_left": left, "window_size_right": right}
        cases += [
            (
                request(
                    "aten::_flash_attention_forward",
                    query=q,
                    key=k,
                    value=v,
                    max_q=s["q"],
                    max_k=s["k"],
                    is_causal=causal,
                    **window,
                ),
                ahead,
            ),
            (
                request(
                    "aten::_flash_attention_forward.quantized",
                    query=q,
                    key=k,
                    value=v,
                    max_q=s["q"],
                    max_k=s["k"],
                    is_causal=causal,
                    **window,
                ),
                ahead,
            ),
            (
                request(
                    "aten::_flash_attention_backward",
                    grad_out=out,
                    query=q,
                    key=k,
                    value=v,
                    max_q=s["q"],
                    max_k=s["k"],
                    is_causal=causal,
                    **window,
                ),
                *behind,
            ),
        ]
        # Libraries that are not installed; their arguments are in the order of their sources.
        sent = [ops_probe.encode(x) for x in (q, k, v)]
        ends = [0.0, 0.125, causal, -1 if left is None else left, -1 if right is None else right]
        cases += [
            ({"operator": name, "arguments": [*sent, *ends, 0.0, None, False]}, ahead)
            for name in [
                "flash_attn::_flash_attn_forward",
                "aiter::_flash_attn_forward",
                "aiter::mha_fwd",
                "aiter::fmha_v3_fwd",
            ]
        ]
        cases += [
            ({"operator": "FlashAttnFunc", "arguments": [*sent, 0.0, 0.125, causal, {"list": ends[3:]}, 0.0]}, ahead)
        ]
        before = [ops_probe.encode(out), *sent, ops_probe.encode(out), None]
        cases += [
            (
                {"operator": "flash_attn::_flash_attn_backward", "arguments": [*before, None, None, None, *ends]},
                *behind,
            ),
            (
                {"operator": "aiter::_flash_attn_backward", "arguments": [*before, None, None, None, None, *ends]},
                *behind,
            ),
            ({"operator": "aiter::mha_bwd", "arguments": [*before, *ends]}, *behind),
        ]
        cases += [
            ({"operator": "flash_attn_3::fwd", "arguments": [*sent, *([None] * 20), 0.125, causal, *ends[3:]]}, ahead)
        ]
    check(cases)


def test_efficient_attention_by_mask_type():
    cases = []
    for seed in range(TRIALS * 2):
        r = random.Random(f"efficient/{seed}")
        s = shapes(r)
        q, k, v = (
            T(s["b"], s["q"], s["h"], s["dqk"]),
            T(s["b"], s["k"], s["h"], s["dqk"]),
            T(s["b"], s["k"], s["h"], s["dv"]),
        )
        kind = r.randint(0, 2)
        window = r.choice([None, r.randint(1, s["k"])]) if kind else None
        pairs = s["b"] * s["h"] * drawn_pairs(s["q"], s["k"], kind > 0, kind == 2, window - 1 if window else None)
        ahead, behind = forward(pairs, s["dqk"], s["dv"]), backward(pairs, s["dqk"], s["dv"])
        cases += [
            (
                request(
                    "aten::_efficient_attention_forward",
                    query=q,
                    key=k,
                    value=v,
                    custom_mask_type=kind,
                    window_size=window,
                ),
                ahead,
            ),
            (
                request(
                    "aten::_efficient_attention_backward",
                    grad_out_=q,
                    query=q,
                    key=k,
                    value=v,
                    custom_mask_type=kind,
                    window_size=window,
                ),
                *behind,
            ),
        ]
        sent = [ops_probe.encode(x) for x in (q, k, v)]
        cases += [
            (
                {
                    "operator": "xformers::efficient_attention_forward_cutlass",
                    "arguments": [*sent, None, None, None, None, 0.0, True, kind, None, None, window],
                },
                ahead,
            )
        ]
        cases += [
            (
                {
                    "operator": "xformers::efficient_attention_backward_cutlass",
                    "arguments": [sent[0], *sent, None, None, None, 0, 0, None, None, 0.0, 0, 0, kind, None, 0, window],
                },
                *behind,
            )
        ]
    check(cases)


def test_packed_sequences_by_their_offsets():
    cases = []
    for seed in range(TRIALS):
        r = random.Random(f"varlen/{seed}")
        s, count = shapes(r), r.randint(1, 5)
        queries, keys = ([r.randint(0, 9) for _ in range(count)] for _ in range(2))
        causal = r.random() < 0.5
        offsets = [[0, *(sum(lengths[:i + 1]) for i in range(count))] for lengths in (queries, keys)]
        cu_q, cu_k = (T(count + 1, dtype=torch.int32, values=o) for o in offsets)
        q, k, v = T(sum(queries), s["h"], s["dqk"]), T(sum(keys), s["hk"], s["dqk"]), T(sum(keys), s["hk"], s["dv"])
        pairs = s["h"] * sum(drawn_pairs(a, b, causal, True) for a, b in zip(queries, keys, strict=True))
        packed = {"cum_seq_q": cu_q, "cum_seq_k": cu_k, "max_q": max(queries), "max_k": max(keys), "is_causal": causal}
        ahead, behind = forward(pairs, s["dqk"], s["dv"]), backward(pairs, s["dqk"], s["dv"])
        cases += [(request("aten::_flash_attention_forward", query=q, key=k, value=v, **packed), ahead),
                  (request("aten::_flash_attention_backward", grad_out=q, query=q, key=k, value=v, **packed), *behind)]
        sent = [ops_probe.encode(x) for x in (q, k, v, cu_q, cu_k)]
        cases += [
            (
                {
                    "operator": "flash_attn::_flash_attn_varlen_forward",
                    "arguments": [*sent, max(queries), max(keys), 0.0, 0.1, causal, -1, -1],
                },
                ahead,
            )
        ]
    check(cases)


def test_packed_sequences_without_their_offsets():
    """Shapes decide if they leave no choice. Otherwise the call is not counted, and the reason is said."""
    q = T(12, 2, 4)
    one, alike, open_ = ops_probe.ask(
        [
            request(
                "aten::_flash_attention_forward",
                query=q,
                key=q,
                value=q,
                cum_seq_q=T(2),
                cum_seq_k=T(2),
                max_q=12,
                max_k=12,
                is_causal=True,
            ),
            request(
                "aten::_flash_attention_forward",
                query=q,
                key=q,
                value=q,
                cum_seq_q=T(4),
                cum_seq_k=T(4),
                max_q=4,
                max_k=4,
                is_causal=True,
            ),
            request(
                "aten::_flash_attention_forward",
                query=q,
                key=q,
                value=q,
                cum_seq_q=T(4),
                cum_seq_k=T(4),
                max_q=8,
                max_k=8,
                is_causal=True,
            ),
        ]
    )
    assert one["hardware"] == forward(2 * 78, 4, 4) and alike["hardware"] == forward(2 * 3 * 10, 4, 4)
    assert open_["code"] == "unsupported" and "lengths" in open_["error"]
