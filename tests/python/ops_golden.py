"""Writes src/ops/golden.jsonl: operators with random shapes, and the FLOPs that torch's formulas give. The unit tests
read it, because they have no torch.

    .venv/bin/python tests/python/ops_golden.py > src/ops/golden.jsonl
"""

import json
import random

import torch
from torch.utils import flop_counter

from ops_probe import T, request


def line(asked, flop):
    print(json.dumps(asked | {"flop": flop}))


def multiplies(r):
    b, m, k, n = (r.randint(1, 500) for _ in range(4))
    dtype = r.choice([torch.float32, torch.bfloat16, torch.float16])
    flop, batched = flop_counter.mm_flop([m, k], [k, n]), flop_counter.bmm_flop([b, m, k], [b, k, n])
    left, right = T(m, k, dtype=dtype), T(k, n, dtype=dtype)
    line(request("aten::mm", self=left, mat2=right), flop)
    line(request("aten::addmm.out", self=T(n, dtype=dtype), mat1=left, mat2=right), flop)
    line(request("aten::bmm", self=T(b, m, k, dtype=dtype), mat2=T(b, k, n, dtype=dtype)), batched)
    line(request("aten::baddbmm_", self=T(b, m, n), batch1=T(b, m, k), batch2=T(b, k, n)), batched)
    line(
        request(
            "aten::_scaled_mm",
            self=T(m, k, dtype=torch.float8_e4m3fn),
            mat2=T(k, n, dtype=torch.float8_e4m3fn),
            scale_a=T(1),
            scale_b=T(1),
        ),
        flop,
    )


def convolutions(r):
    dims, transposed = r.randint(1, 3), r.random() < 0.4
    a, b = r.randint(1, 9), r.randint(1, 9)
    kernel, stride, dilation = ([r.randint(1, 3) for _ in range(dims)] for _ in range(3))
    x, weight = torch.empty(r.randint(1, 4), a, *([12] * dims), device="meta"), torch.empty(
        *((a, b) if transposed else (b, a)), *kernel, device="meta"
    )
    flags = {
        "stride": stride,
        "padding": [r.randint(0, 1)] * dims,
        "dilation": dilation,
        "transposed": transposed,
        "output_padding": [0] * dims,
        "groups": 1,
    }
    out = torch.convolution(x, weight, None, **flags)
    line(
        request("aten::convolution", input=x, weight=weight, **flags),
        flop_counter.conv_flop(x, weight, None, 0, 0, 0, transposed, out_val=out),
    )
    mask = [r.random() < 0.7, True, False]
    line(
        request("aten::convolution_backward", grad_output=out, input=x, weight=weight, **flags, output_mask=mask),
        flop_counter.conv_backward_flop(
            out, x, weight, None, 0, 0, 0, transposed, 0, 1, mask, out_val=(x, weight, None)
        ),
    )


def attention(r):
    b, heads, group, q, k, dqk, dv = (r.randint(1, 64) for _ in range(7))
    query, key, value = T(b, heads * group, q, dqk), T(b, heads, k, dqk), T(b, heads, k, dv)
    out = T(b, heads * group, q, dv)
    ahead = flop_counter.sdpa_flop_count(query.sizes, key.sizes, value.sizes)
    behind = flop_counter.sdpa_backward_flop_count(out.sizes, query.sizes, key.sizes, value.sizes)
    for kind in ["flash", "efficient", "cudnn"]:
        line(request(f"aten::_scaled_dot_product_{kind}_attention", query=query, key=key, value=value), ahead)
        grad = "grad_out_" if kind == "efficient" else "grad_out"
        line(
            request(
                f"aten::_scaled_dot_product_{kind}_attention_backward",
                **{grad: out},
                query=query,
                key=key,
                value=value,
                is_causal=False,
            ),
            behind,
        )


if __name__ == "__main__":
    source = random.Random("golden")
    for _ in range(8):
        multiplies(source)
        convolutions(source)
        attention(source)
