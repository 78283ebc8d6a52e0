"""Compares the cost of each operator with torch's own FLOP formulas where they are right, and with counting by brute
force where they are not."""

import os
import random

import pytest

torch = pytest.importorskip("torch")
from torch.utils import flop_counter  # noqa: E402

import ops_probe  # noqa: E402
from ops_probe import T, request  # noqa: E402

TRIALS = int(os.environ.get("MFU_OPS_TRIALS", "40"))
pytestmark = pytest.mark.skipif(ops_probe.find_probe() is None, reason="mfu_ops_probe is not built")


def check(cases):
    """Takes cases of (request, hardware, model or None) and asks all of them in one process."""
    answers = ops_probe.ask([c[0] for c in cases])
    for (asked, hardware, *model), answer in zip(cases, answers, strict=True):
        assert answer.get("hardware") == hardware, f"{asked}\n{answer}\nexpected {hardware}"
        assert answer.get("model") == (model[0] if model else hardware), f"{asked}\n{answer}"


def sizes(r, count, most=40):
    return [r.randint(1, most) for _ in range(count)]


def test_every_name_of_torch_is_one():
    """A row that torch does not know is a typing error, unless its name belongs to an older torch or another
    library."""
    if not ops_probe.as_new_as_the_table():
        pytest.skip("a torch as new as the table of operators is not at hand")
    known = {s.name for s in torch._C._jit_get_all_schemas()}
    old = {
        f"aten::{maker}_convolution_backward{half}"
        for maker in ("cudnn", "miopen")
        for half in ("", "_input", "_weight")
    } | {"aten::cudnn_convolution_transpose_backward"}
    rows = ops_probe.ask([{"all": True}])[0]
    missing = {
        row["name"]
        for row in rows if row["name"].startswith(("aten::", "mkldnn::", "mkl::", "onednn::",
                                                   "quantized::")) and row["name"].split(".")[0] not in known
    }
    assert missing == old
    for row in rows:
        if "." in row["name"]:
            ops_probe.schema_of(row["name"])


def test_names_torch_has_and_we_do_not():
    """A name that looks like a product is listed as uncounted; a name that only prepares one is not."""
    names = {
        "aten::_mixed_dtypes_linear": True, "aten::sparse_sampled_addmm": True, "quantized::conv2d_dynamic": True,
        "aten::upsample_bilinear2d": False, "aten::_convert_weight_to_int4pack": False,
        "quantized::linear_prepack": False, "aten::fft_fft": False, "aten::add": False, "AddmmBackward0": False,
        "autograd::engine::evaluate_function: MmBackward0": False, "_C_cache_ops::reshape_and_cache_flash": False,
        "triton_poi_fused_addmm_relu_0": False, "triton_tem_fused_mm_0": True, "vllm::outplace_fused_experts": True,
        "_C::gptq_marlin_gemm": True, "_C::rotary_embedding": False, "aten::_fused_sdp_choice": False,
        "flash_attn_3::_flash_attn_forward": True, "MyFlashAttention": True, "record_param_comms": False,
        "aten::comm": False
    }
    answers = ops_probe.ask([{"operator": name} for name in names])
    assert {n: a.get("looks_flop_carrying") for n, a in zip(names, answers, strict=True)} == names


def test_matrix_multiplies():
    cases = []
    for seed in range(TRIALS):
        r = random.Random(f"mm/{seed}")
        m, k, n, b = sizes(r, 4)
        a, w, out = T(m, k), T(k, n), T(m, n)
        flop = flop_counter.mm_flop([m, k], [k, n])
        batched = flop_counter.bmm_flop([b, m, k], [b, k, n])
        cases += [
            (request(name, self=a, mat2=w, **more), flop)
            for name, more in [("aten::mm",
                                {}), ("aten::mm.out",
                                      {"out": out}), ("aten::mm.dtype",
                                                      {"out_dtype": torch.float32}), ("aten::_int_mm",
                                                                                      {}), ("aten::_int_mm.out", {})]
        ]
        cases += [(request(name, self=out, mat1=a, mat2=w), flop) for name in [
            "aten::addmm", "aten::addmm.out", "aten::addmm_", "aten::addmm.dtype", "aten::_addmm_activation",
            "aten::_addmm_activation.out"
        ]]
        cases += [(request(name, self=T(b, m, k), mat2=T(b, k, n)), batched)
                  for name in ["aten::bmm", "aten::bmm.out", "aten::bmm.dtype", "aten::bmm.dtype_out"]]
        cases += [(request(name, self=T(b, m, n), batch1=T(b, m, k), batch2=T(b, k, n)), batched) for name in [
            "aten::baddbmm", "aten::baddbmm.out", "aten::baddbmm_", "aten::addbmm", "aten::addbmm_", "aten::addbmm.out",
            "aten::baddbmm.dtype"
        ]]
        cases += [(request("aten::mv", self=a, vec=T(k)), 2 * m * k),
                  (request("aten::mv.out", self=a, vec=T(k)), 2 * m * k)]
        cases += [(request(name, self=T(m), mat=a, vec=T(k)), 2 * m * k)
                  for name in ["aten::addmv", "aten::addmv_", "aten::addmv.out"]]
        cases += [(request("aten::dot", self=T(k), tensor=T(k)), 2 * k),
                  (request("aten::vdot", self=T(k), other=T(k)), 2 * k)]
        cases += [(request("aten::addr", self=out, vec1=T(m), vec2=T(n)), 2 * m * n)]
        for name in ["aten::linear", "aten::mkldnn_linear"]:
            schema = [a_.name for a_ in ops_probe.schema_of(name).arguments]
            cases += [(request(name, **{schema[0]: T(b, m, k), "weight": T(n, k), "bias": T(n)}), b * flop)]
        cases += [(request("aten::mkldnn_linear_backward_input",
                           input_size=[b, m, k],
                           grad_output=T(b, m, n),
                           weight=T(n, k)), b * flop)]
        cases += [(request("aten::mkldnn_linear_backward_weights",
                           grad_output=T(b, m, n),
                           input=T(b, m, k),
                           weight=T(n, k),
                           bias_defined=True), b * flop)]
    check(cases)


def test_matmul_broadcasts_as_torch_does():
    """Compares the wrapper's formula with the sum of its inner operators."""
    cases = []
    for seed in range(TRIALS):
        r = random.Random(f"matmul/{seed}")
        k = r.randint(1, 9)
        batch = sizes(r, r.randint(0, 3), 4)
        thin = [1 if r.random() < 0.4 else s for s in batch][r.randint(0, len(batch)):]
        left = ([*batch, r.randint(1, 6)] if r.random() < 0.8 else []) + [k]
        right = [*(thin if len(left) > 1 else []), k, r.randint(1, 6)] if r.random() < 0.8 else [k]
        result = torch.empty(left, device="meta") @ torch.empty(right, device="meta")
        cases.append((request("aten::matmul", self=T(*left), other=T(*right)), 2 * k * result.numel()))
    check(cases)


def test_quantized_packed_and_grouped():
    cases = []
    for seed in range(TRIALS):
        r = random.Random(f"packed/{seed}")
        m, groups, n8, experts = sizes(r, 4, 9)
        k, n = 64 * groups, 16 * n8
        flop = 2 * m * k * n
        bf = torch.bfloat16
        x = T(m, k, dtype=bf)
        cases += [(request("aten::_weight_int4pack_mm",
                           self=x,
                           mat2=T(n // 8, k // 128, 32, 4, dtype=torch.int32),
                           qGroupSize=32,
                           qScaleAndZeros=T(k // 32, n, 2, dtype=bf)), flop)]
        cases += [(request("aten::_weight_int4pack_mm_for_cpu",
                           self=x,
                           mat2=T(n, k // 2, dtype=torch.uint8),
                           qGroupSize=32,
                           qScaleAndZeros=T(k // 32, n, 2, dtype=bf)), flop)]
        cases += [(request("aten::_weight_int8pack_mm", self=x, mat2=T(n, k, dtype=torch.int8),
                           scales=T(n, dtype=bf)), flop)]
        cases += [(request("aten::_dyn_quant_matmul_4bit",
                           inp=x,
                           packed_weights=T(999, dtype=torch.uint8),
                           block_size=32,
                           in_features=k,
                           out_features=n), flop)]
        cases += [(request(name, X=T(2, m, k), result=T(2, m, n)), 2 * flop)
                  for name in ["quantized::linear_dynamic", "quantized::linear_relu_dynamic"]]
        fp8 = torch.float8_e4m3fn
        cases += [(request("aten::_scaled_mm",
                           self=T(m, k, dtype=fp8),
                           mat2=T(k, n, dtype=fp8),
                           scale_a=T(1),
                           scale_b=T(1),
                           out_dtype=bf), flop)]
        cases += [(request("aten::_scaled_mm_v2",
                           self=T(m, k, dtype=fp8),
                           mat2=T(k, n, dtype=fp8),
                           scale_a=[T(1)],
                           scale_b=[T(1)]), flop)]
        fp4 = torch.float4_e2m1fn_x2
        cases += [(request("aten::_scaled_mm",
                           self=T(m, k // 2, dtype=fp4),
                           mat2=T(k // 2, n, dtype=fp4),
                           scale_a=T(1),
                           scale_b=T(1)), flop)]
        offs = T(experts, dtype=torch.int32)
        cases += [(request("aten::_grouped_mm", self=T(m, k), mat2=T(experts, k, n), offs=offs), flop),
                  (request("aten::_grouped_mm", self=T(n, m), mat2=T(m, k), offs=offs), flop),
                  (request("aten::_grouped_mm", self=T(experts, m, k), mat2=T(k, n), offs=offs), flop),
                  (request("aten::_grouped_mm", self=T(experts, m, k), mat2=T(experts, k, n)), experts * flop)]
        cases += [(request("aten::_scaled_grouped_mm",
                           self=T(m, k, dtype=fp8),
                           mat2=T(experts, k, n, dtype=fp8),
                           scale_a=T(m),
                           scale_b=T(experts, n),
                           offs=offs), flop)]
        cases += [(request("mkldnn::_linear_pointwise", X=T(2, m, k), W=T(n, k), attr="none", scalars=[]), 2 * flop),
                  (request("mkldnn::_linear_pointwise.binary", X=T(m, k), other=T(m, n), W=T(n, k), attr="add"), flop),
                  (request("mkl::_mkl_linear", X=T(m, k), MKL_W=T(12345), ORI_W=T(n, k), batch_size=m), flop),
                  (request("onednn::qlinear_pointwise",
                           qx=T(m, k, dtype=torch.uint8),
                           x_scale=1.0,
                           x_zero_point=0,
                           qw=T(k, n, dtype=torch.int8),
                           w_scale=T(n),
                           w_zero_point=T(n)), flop)]
        # Profiler files have the name without its overload; the number of arguments tells which one it is.
        binary = request("mkldnn::_linear_pointwise.binary", X=T(m, k), other=T(m, n), W=T(n, k), attr="add")
        cases += [(binary | {"operator": "mkldnn::_linear_pointwise"}, flop)]
        cases += [(request("aten::_sparse_semi_structured_mm", mat1=T(m, k // 2), mat1_meta=T(m, 4),
                           mat2=T(k, n)), flop // 2),
                  (request("aten::_sparse_semi_structured_addmm",
                           input=T(m),
                           mat1=T(m, k // 2),
                           mat1_meta=T(m, 4),
                           mat2=T(k, n)), flop // 2),
                  (request("aten::_sparse_semi_structured_linear", input=T(3, m, k), weight=T(n, k // 2),
                           meta=T(n, 4)), 3 * flop // 2)]
    check(cases)


def convolution_of(seed):
    """A random convolution and its products, counted by convolving ones. Padding counts like the rest of the input, so
    it is made of ones too."""
    r = random.Random(f"conv/{seed}")
    dims, transposed, groups = r.randint(1, 3), r.random() < 0.4, r.randint(1, 3)
    channels_in, channels_out = groups * r.randint(1, 3), groups * r.randint(1, 3)
    kernel, stride, dilation = ([r.randint(1, 3) for _ in range(dims)] for _ in range(3))
    padding = [r.randint(0, 2) for _ in range(dims)]
    extra = [r.randint(0, max(s, d) - 1) if transposed else 0 for s, d in zip(stride, dilation, strict=True)]
    spatial = [r.randint(d * (k - 1) + 1, 9) if d * (k - 1) < 9 else 9 for k, d in zip(kernel, dilation, strict=True)]
    x = torch.ones(r.randint(1, 3), channels_in, *spatial)
    weight = torch.ones(
        *((channels_in, channels_out // groups) if transposed else (channels_out, channels_in // groups)), *kernel)
    flags = {
        "stride": stride, "padding": padding, "dilation": dilation, "transposed": transposed, "output_padding": extra,
        "groups": groups
    }
    if transposed:
        products = torch.convolution(x, weight, None, stride, [0] * dims, dilation, True, [0] * dims, groups).sum()
    else:
        padded = torch.nn.functional.pad(x, [p for p in reversed(padding) for _ in range(2)], value=1.0)
        products = torch.convolution(padded, weight, None, stride, [0] * dims, dilation, False, [0] * dims,
                                     groups).sum()
    return x, weight, flags, int(products)


def test_convolutions():
    cases = []
    for seed in range(TRIALS * 3):
        x, weight, flags, products = convolution_of(seed)
        try:
            out = torch.convolution(x, weight, None, **flags)
        except RuntimeError:
            continue  # no output is left after the padding is cut off
        flop, dims = 2 * products, x.dim() - 2
        torch_says = flop_counter.conv_flop(x, weight, None, 0, 0, 0, flags["transposed"], out_val=out)
        assert torch_says == flop
        more = {"benchmark": False, "deterministic": False, "cudnn_enabled": True, "allow_tf32": True}
        cases += [(request("aten::convolution", input=x, weight=weight, **flags), flop),
                  (request("aten::_convolution", input=x, weight=weight, **flags, **more), flop),
                  (request("aten::convolution_overrideable", input=x, weight=weight, **flags), flop)]
        plain = {key: flags[key] for key in ("stride", "padding", "dilation", "groups")}
        if flags["transposed"]:
            spread = plain | {"output_padding": flags["output_padding"]}
            overload = "" if dims == 1 else ".input"
            cases += [(request(f"aten::conv_transpose{dims}d{overload}", input=x, weight=weight, **spread), flop)]
            cases += [(request(name, self=x, weight=weight, **spread), flop)
                      for name in ["aten::cudnn_convolution_transpose", "aten::miopen_convolution_transpose"]]
            cases += [(request("mkldnn::_convolution_transpose_pointwise", X=x, W=weight, **spread), flop)]
        else:
            cases += [(request(f"aten::conv{dims}d", input=x, weight=weight, **plain), flop)]
            cases += [(request(name, self=x, weight=weight, **plain), flop) for name in [
                "aten::cudnn_convolution", "aten::miopen_convolution", "aten::mkldnn_convolution",
                "aten::cudnn_convolution_relu", "aten::cudnn_convolution_add_relu"
            ]]
            cases += [(request("mkldnn::_convolution_pointwise", X=x, W=weight, **plain), flop),
                      (request("mkldnn::_convolution_pointwise.binary", X=x, other=out, W=weight, **plain), flop),
                      (request("mkldnn::_convolution_pointwise_.binary", X=x, other=out, W=weight, **plain), flop)]
            cases += [(request("onednn::qconv_pointwise",
                               qx=T(*x.shape, dtype=torch.uint8),
                               qw=T(*weight.shape, dtype=torch.int8),
                               **plain), flop)]
            slow = {"kernel_size": list(weight.shape[2:]), "stride": flags["stride"], "padding": flags["padding"]}
            if flags["dilation"] == [1] * dims and dims == 2:
                cases += [(request(name, self=x, weight=weight, **slow), flop)
                          for name in ["aten::_slow_conv2d_forward", "aten::thnn_conv2d"]]
            if dims == 2:
                cases += [(request(name, self=x, weight=weight, **slow, dilation=flags["dilation"]), flop)
                          for name in ["aten::slow_conv_dilated2d", "aten::_conv_depthwise2d"]]
        for mask in [(True, True, False), (True, False, True), (False, True, True), (False, False, True)]:
            parts = torch.ops.aten.convolution_backward(out, x, weight, None, *list(flags.values()), mask)
            expected = flop * (mask[0] + mask[1])
            cases += [(request("aten::convolution_backward",
                               grad_output=out,
                               input=x,
                               weight=weight,
                               **flags,
                               output_mask=mask), expected)]
            before_1_11 = [
                x, out, weight, flags["padding"], *([flags["output_padding"]] if flags["transposed"] else []),
                flags["stride"], flags["dilation"], flags["groups"], False, False, True, mask[:2]
            ]
            name = "aten::cudnn_convolution_transpose_backward" if flags[
                "transposed"] else "aten::cudnn_convolution_backward"
            cases += [({"operator": name, "arguments": [ops_probe.encode(value) for value in before_1_11]}, expected)]
            if flags["groups"] == 1:  # otherwise torch leaves the groups out of the weight's gradient
                says = flop_counter.conv_backward_flop(out,
                                                       x,
                                                       weight,
                                                       None,
                                                       0,
                                                       0,
                                                       0,
                                                       flags["transposed"],
                                                       0,
                                                       1,
                                                       list(mask),
                                                       out_val=parts)
                assert says == expected
    check(cases)


def test_bytes_of_convolutions_and_multiplies():
    requests, expected = [], []
    for seed in range(TRIALS):
        x, weight, flags, _ = convolution_of(seed)
        try:
            out = torch.convolution(x, weight, None, **flags)
        except RuntimeError:
            continue
        requests.append(request("aten::convolution", input=x, weight=weight, **flags))
        expected.append((4 * (x.numel() + weight.numel()), 4 * out.numel()))
        requests.append(
            request("aten::convolution_backward",
                    grad_output=out,
                    input=x,
                    weight=weight,
                    **flags,
                    output_mask=(True, True, False)))
        expected.append((4 * (out.numel() + x.numel() + weight.numel()), 4 * (x.numel() + weight.numel())))
        m, k, n = sizes(random.Random(seed), 3)
        requests.append(
            request("aten::addmm",
                    self=T(n, dtype=torch.bfloat16),
                    mat1=T(m, k, dtype=torch.bfloat16),
                    mat2=T(k, n, dtype=torch.bfloat16)))
        expected.append((2 * (n + m * k + k * n), 2 * m * n))
        requests.append(request("aten::embedding", weight=T(100, n), indices=T(m, k, dtype=torch.int64)))
        expected.append((8 * m * k + 4 * m * k * n, 4 * m * k * n))
    for asked, want, answer in zip(requests, expected, ops_probe.ask(requests), strict=True):
        assert (answer["read"], answer["written"]) == want, asked


def test_recurrent_layers():
    cases = []
    for seed in range(TRIALS):
        r = random.Random(f"rnn/{seed}")
        steps, batch, width, hidden, layers = sizes(r, 5, 6)
        mode, both = r.randint(0, 3), r.random() < 0.5
        projection = r.randint(1, hidden - 1) if mode == 2 and hidden > 1 and r.random() < 0.5 else 0
        kind = {0: torch.nn.RNN, 1: torch.nn.RNN, 2: torch.nn.LSTM, 3: torch.nn.GRU}[mode]
        model = kind(width, hidden, layers, bidirectional=both, **({"proj_size": projection} if projection else {}))
        weights = sum(p.numel() for name, p in model.named_parameters() if name.startswith("weight"))
        flop = 2 * steps * batch * weights
        shared = {"mode": mode, "hidden_size": hidden, "num_layers": layers, "bidirectional": both}
        x = T(steps, batch, width)
        cases += [(request("aten::_cudnn_rnn", input=x, proj_size=projection, **shared), flop),
                  (request("aten::_cudnn_rnn",
                           input=T(steps * batch, width),
                           proj_size=projection,
                           **shared,
                           batch_sizes=[batch] * steps), flop),
                  (request("aten::_cudnn_rnn_backward", input=x, proj_size=projection, **shared,
                           output_mask=[True] * 4), 2 * flop),
                  (request("aten::_cudnn_rnn_backward",
                           input=x,
                           proj_size=projection,
                           **shared,
                           output_mask=[True, True, True, False]), flop)]
        if not projection:
            cases += [(request("aten::miopen_rnn", input=x, **shared), flop),
                      (request("aten::miopen_rnn_backward", input=x, **shared, output_mask=[True] * 4), 2 * flop)]
    check(cases)


def test_what_is_not_counted_is_said():
    answers = ops_probe.ask([
        request("aten::_fft_c2c", self=T(8, 1024, dtype=torch.complex64), dim=[1], normalization=0, forward=True),
        request("aten::_fft_r2c", self=T(8, 1024), dim=[1], normalization=0, onesided=True),
        request("aten::_fft_c2r", self=T(8, 513, dtype=torch.complex64), dim=[1], normalization=0, last_dim_size=1024),
        request("aten::linalg_solve_triangular", self=T(8, 8), B=T(8, 8), upper=True),
        request("aten::_sparse_mm", sparse=T(8, 8), dense=T(8, 8)),
        request("quantized::linear", X=T(8, 8)),
    ])
    assert [a.get("estimated") for a in answers[:3]] == [5 * 8192 * 10, 5 * 4096 * 10, 5 * 4096 * 10]
    assert [a.get("hardware") for a in answers[:3]] == [0, 0, 0]
    assert all(a["code"] == "unsupported" for a in answers[3:])
