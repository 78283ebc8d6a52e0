"""Libraries that multiply past the dispatcher are counted exactly, forward and backward. An unknown version is left
alone."""

import types

import pytest
import torch

M, K, N = 6, 8, 10


def by_operator(totals):
    return {name: row["hardware_flop"] for (name, _, reason), row in totals.rows.items() if not reason}


def types_of(totals):
    return {kind for (_, kind, reason), row in totals.rows.items() if not reason and row["hardware_flop"]}


def train(module, shape, dtype=torch.float32):
    x = torch.randn(*shape, dtype=dtype, requires_grad=True)
    return lambda: module(x).sum().backward()


def test_the_weight_gradient_of_apex_counts(standin, count):
    (cuda,) = standin("fused_weight_gradient_mlp_cuda")
    grad = torch.zeros(N, K)
    counted = count(
        lambda: cuda.wgrad_gemm_accum_fp32(
            torch.ones(M, K, dtype=torch.bfloat16), torch.ones(M, N, dtype=torch.bfloat16), grad
        )
    )
    assert counted.hardware_flop == 2 * M * K * N and types_of(counted) == {"bf16"}
    assert grad.sum() == M * N * K  # the function still does its work


def test_dense_layers_of_apex_count_forward_and_backward(standin, count):
    dense, mlp = standin("fused_dense_cuda", "mlp_cuda")
    x, w1, w2 = torch.randn(M, K), torch.randn(N, K), torch.randn(4, N)
    flop = 2 * M * K * N
    assert count(lambda: dense.linear_bias_forward(x, w1, torch.zeros(N))).hardware_flop == flop
    assert count(lambda: dense.linear_bias_backward(x, w1, torch.zeros(M, N))).hardware_flop == 2 * flop
    both = flop + 2 * M * N * 4
    assert (
        count(lambda: dense.linear_gelu_linear_forward(x, w1, torch.zeros(N), w2, torch.zeros(4))).hardware_flop == both
    )
    hidden = torch.zeros(M, N)
    assert (
        count(lambda: dense.linear_gelu_linear_backward(x, hidden, hidden, w1, w2, torch.zeros(M, 4))).hardware_flop
        == 2 * both
    )
    inputs = (x, w1, w2, torch.zeros(N), torch.zeros(4))
    assert count(lambda: mlp.forward(1, 1, inputs)).hardware_flop == both
    assert (
        count(lambda: mlp.backward(1, 1, None, None, inputs)).hardware_flop == 2 * both - flop
    )  # the input needs no gradient


def test_flash_attention_2_counts_dense_and_windowed_attention(standin, count):
    _, cuda = standin("flash_attn", "flash_attn_2_cuda")
    q, k = torch.randn(2, 4, 6, 8, dtype=torch.float16), torch.randn(2, 5, 2, 8, dtype=torch.float16)
    causal = 2 * (2 + 3 + 4 + 5)  # aligned at the bottom right
    assert (
        count(lambda: cuda.fwd(q, k, k, None, None, 0.0, 0.1, True, -1, -1, 0.0, False, None)).hardware_flop
        == 4 * causal * 6 * 8
    )
    windowed = 2 * (2 + 2 + 2 + 2)
    assert (
        count(lambda: cuda.fwd(q, k, k, None, None, 0.0, 0.1, True, 1, 0, 0.0, False, None)).hardware_flop
        == 4 * windowed * 6 * 8
    )
    back = count(lambda: cuda.bwd(q, q, k, k, q, None, q, k, k, None, 0.0, 0.1, True, -1, -1, 0.0, False, None, None))
    assert (
        back.hardware_flop == 10 * causal * 6 * 8
        and back.model_flop == 8 * causal * 6 * 8
        and types_of(back) == {"fp16"}
    )


# How the arguments of flash_attn_2_cuda changed by version: (…, out) and (cu_seqlens_q, cu_seqlens_k, …) of varlen_fwd.
# First the tensors before max_seqlen_q, then (p, scale, zero_tensors, causal, windows, softcap, return_softmax,
# generator).
PACKED_FORMS = {
    "2.0": ((), (4, 4, 0.0, 0.1, False, True, False, None)),
    "2.3": ((None,), (4, 4, 0.0, 0.1, False, True, -1, -1, False, None)),
    "2.4": ((None, None), (4, 4, 0.0, 0.1, False, True, -1, -1, False, None)),
    "2.5": ((None, None, None), (4, 4, 0.0, 0.1, False, True, -1, -1, False, None)),
    "2.6": ((None, None, None), (4, 4, 0.0, 0.1, False, True, -1, -1, 0.0, False, None)),
    "2.7": ((None, None, None, None), (4, 4, 0.0, 0.1, False, True, -1, -1, 0.0, False, None)),
}


@pytest.mark.parametrize("version", PACKED_FORMS)
def test_flash_attention_2_counts_packed_sequences_in_every_form_it_had(standin, count, monkeypatch, version):
    standin("flash_attn")
    import flash_attn_2_cuda as cuda

    monkeypatch.setattr(cuda, "varlen_fwd", watched_any(standin, "varlen_fwd"))
    q, offsets = torch.randn(7, 6, 8, dtype=torch.bfloat16), torch.tensor([0, 3, 7], dtype=torch.int32)
    tensors, rest = PACKED_FORMS[version]
    counted = count(lambda: cuda.varlen_fwd(q, q, q, None, offsets, offsets, *tensors, *rest))
    assert counted.hardware_flop == 4 * (6 + 10) * 6 * 8 and not counted.uncounted()


def watched_any(standin, name):
    """Gives the stand-in's wrapper for a function that takes any arguments."""
    import flash_attn_2_cuda as cuda
    from mfu import _observer
    from mfu._observer.libraries import flash_attn_2
    from mfu._observer.libraries.wrapping import Book

    book = Book(_observer.library(), "flash_attn_2")
    formula = {"varlen_fwd": flash_attn_2.packed(0, 4, False), "fwd_kvcache": flash_attn_2.cached}[name]
    assert getattr(cuda, name)._mfu_wrapped
    return book.watched(lambda *args: None, formula, f"flash_attn_2::{name}")


def test_flash_attention_2_counts_packed_sequences_by_their_offsets(standin, count):
    _, cuda = standin("flash_attn", "flash_attn_2_cuda")
    q, offsets = torch.randn(7, 6, 8, dtype=torch.bfloat16), torch.tensor([0, 3, 7], dtype=torch.int32)
    rest = (4, 4, 0.0, 0.1, False, True, -1, -1, 0.0, False, None)
    forward = lambda *more: count(lambda: cuda.varlen_fwd(q, q, q, None, offsets, offsets, *more, *rest))  # noqa: E731
    assert forward(None, None, None, None).hardware_flop == 4 * (6 + 10) * 6 * 8
    # Only 2 and 3 of the keys are used, aligned at the bottom right: 0+1+2 and 0+1+2+3 pairs. Then each sequence loses
    # one more key.
    used, padding = torch.tensor([2, 3], dtype=torch.int32), torch.tensor([1, 1], dtype=torch.int32)
    assert forward(used, None, None, None).hardware_flop == 4 * (3 + 6) * 6 * 8
    assert forward(used, padding, None, None).hardware_flop == 4 * (1 + 3) * 6 * 8
    backward = count(lambda: cuda.varlen_bwd(*[q] * 5, None, q, q, q, offsets, offsets, None, *rest, None))
    assert backward.hardware_flop == 10 * (6 + 10) * 6 * 8


@pytest.mark.parametrize("optional", [0, 1, 2, 3, 4])
def test_flash_attention_2_counts_a_cache_by_its_lengths(standin, count, monkeypatch, optional):
    standin("flash_attn")
    import flash_attn_2_cuda as cuda

    monkeypatch.setattr(cuda, "fwd_kvcache", watched_any(standin, "fwd_kvcache"))
    q, cache, new = torch.randn(2, 1, 6, 8), torch.randn(2, 64, 2, 8), torch.randn(2, 1, 2, 8)
    lengths = torch.tensor([10, 20], dtype=torch.int32)
    more = (None,) * optional

    def flop(keys, *new):
        call = lambda: cuda.fwd_kvcache(
            q, cache, cache, *new, keys, None, None, None, *more, 0.1, True, -1, -1, 0.0, True, 0
        )  # noqa: E731
        return count(call).hardware_flop

    assert flop(lengths, new, new) == 4 * (11 + 21) * 6 * 8
    assert flop(None, None, None) == 4 * (64 + 64) * 6 * 8


def test_flash_attention_2_counts_pages_of_a_cache(standin, count):
    _, cuda = standin("flash_attn", "flash_attn_2_cuda")
    q, cache = torch.randn(2, 1, 6, 8), torch.randn(9, 256, 2, 8)
    table = torch.zeros(2, 3, dtype=torch.int32)
    rest = (None, None, None, None, table, None, None, 0.1, True, -1, -1, 0.0, True, 0)
    call = lambda keys: lambda: cuda.fwd_kvcache(q, cache, cache, None, None, keys, *rest)  # noqa: E731
    assert count(call(None)).hardware_flop == 4 * (2 * 3 * 256) * 6 * 8
    assert count(call(torch.tensor([300, 5], dtype=torch.int32))).hardware_flop == 4 * 305 * 6 * 8


def test_flash_attention_4_counts_its_function_forward_and_backward(standin, count):
    (interface,) = standin("flash_attn.cute.interface")
    q = torch.randn(2, 4, 3, 8, requires_grad=True)
    counted = count(lambda: interface.FlashAttnFunc.apply(q, q, q, None, True).sum().backward())
    assert counted.hardware_flop == (4 + 10) * 2 * 10 * 3 * 8 and counted.model_flop == 12 * 2 * 10 * 3 * 8
    assert interface._flash_attn_fwd.compile_cache == {"seen": True}


def test_flash_attention_4_counts_packed_and_used_lengths_and_steps_aside_for_what_it_does_not_know(standin, count):
    (interface,) = standin("flash_attn.cute.interface")
    packed, offsets = torch.randn(7, 3, 8), torch.tensor([0, 3, 7], dtype=torch.int32)
    forward = lambda *args, **kwargs: count(lambda: interface._flash_attn_fwd(*args, **kwargs))  # noqa: E731
    both = {"cu_seqlens_q": offsets, "cu_seqlens_k": offsets}
    assert forward(packed, packed, packed, **both).hardware_flop == 4 * (9 + 16) * 3 * 8
    used = torch.tensor([2, 3], dtype=torch.int32)
    dense = torch.randn(2, 4, 3, 8)
    assert forward(dense, dense, dense, seqused_k=used).hardware_flop == 4 * (8 + 12) * 3 * 8
    # Decoding from pages: packed queries, lengths of the keys, a page table.
    pages, table = torch.randn(9, 16, 3, 8), torch.zeros(2, 2, dtype=torch.int32)
    mixed = {"cu_seqlens_q": offsets, "seqused_k": torch.tensor([10, 20], dtype=torch.int32), "page_table": table}
    assert forward(packed, pages, pages, **mixed).hardware_flop == 4 * (3 * 10 + 4 * 20) * 3 * 8
    assert forward(dense, dense, dense, window_size_left=-1, window_size_right=-1).hardware_flop == 4 * 2 * 16 * 3 * 8
    aside = forward(packed, pages, pages, cu_seqlens_q=offsets, page_table=table)
    assert aside.hardware_flop == 0 and aside.uncounted()[0]["operator"] == "flash_attn_4::_flash_attn_fwd"


def test_grouped_gemm_counts_rows_of_experts(standin, count):
    (grouped,) = standin("grouped_gemm")
    a, b, sizes = torch.randn(9, K), torch.randn(3, K, N), torch.tensor([4, 0, 5])
    counted = count(lambda: grouped.gmm(a, b, sizes))
    assert by_operator(counted) == {"grouped_gemm::gmm": 2 * 9 * K * N}
    assert count(lambda: grouped.gmm(a, torch.randn(9, N), sizes, trans_a=True)).hardware_flop == 2 * 9 * K * N
    assert count(lambda: grouped.gmm(a, torch.randn(3, N, K), sizes, trans_b=True)).hardware_flop == 2 * 9 * K * N


def test_deep_gemm_counts_dense_grouped_and_masked_products(standin, count):
    (deep,) = standin("deep_gemm")
    fp8 = lambda *shape: (torch.zeros(*shape, dtype=torch.float8_e4m3fn), torch.ones(1))  # noqa: E731
    counted = count(lambda: deep.fp8_gemm_nt(fp8(M, K), fp8(N, K), torch.zeros(M, N)))
    assert counted.hardware_flop == 2 * M * K * N and types_of(counted) == {"fp8"}
    assert (
        count(lambda: deep.bf16_gemm_nn(torch.zeros(M, K), torch.zeros(K, N), torch.zeros(M, N))).hardware_flop
        == 2 * M * K * N
    )
    groups = torch.tensor([0, 0, 1, 1, -1, -1], dtype=torch.int32)
    assert (
        count(
            lambda: deep.m_grouped_fp8_gemm_nt_contiguous(fp8(M, K), fp8(2, N, K), torch.zeros(M, N), groups)
        ).hardware_flop
        == 2 * 4 * K * N
    )
    used = torch.tensor([1, 3], dtype=torch.int32)
    assert (
        count(
            lambda: deep.m_grouped_fp8_gemm_nt_masked(fp8(2, M, K), fp8(2, N, K), torch.zeros(2, M, N), used, 3)
        ).hardware_flop
        == 2 * 4 * K * N
    )
    assert (
        count(
            lambda: deep.k_grouped_fp8_gemm_tn_contiguous(fp8(12, K), fp8(12, N), torch.zeros(2, K, N), [4, 8], None)
        ).hardware_flop
        == 2 * 12 * K * N
    )
    assert (
        count(
            lambda: deep.einsum("bhr,hdr->bhd", torch.zeros(2, 3, 5), torch.zeros(3, 7, 5), torch.zeros(2, 3, 7))
        ).hardware_flop
        == 2 * 2 * 3 * 5 * 7
    )
    named = count(lambda: deep.fp8_paged_mqa_logits(None, None, None, None, None, None, 0, False))
    split = count(lambda: deep.fp8_gemm_nt_skip_head_mid(fp8(M, K), fp8(N, K), torch.zeros(M, N + 2), (3, 1, 2)))
    assert split.hardware_flop == 2 * M * K * N
    starts, ends = torch.tensor([0, 0, 1], dtype=torch.int32), torch.tensor([2, 3, 3], dtype=torch.int32)
    q, kv = torch.zeros(3, 4, 8, dtype=torch.float8_e4m3fn), torch.zeros(5, 8, dtype=torch.float8_e4m3fn)
    logits = count(lambda: deep.fp8_mqa_logits(q, (kv, None), None, starts, cu_seq_len_k_end=ends))
    assert logits.hardware_flop == 2 * 4 * 8 * (2 + 3 + 2)
    packed = torch.zeros(3, 4, 4, dtype=torch.int8)
    logits = count(lambda: deep.fp8_fp4_mqa_logits((packed, torch.ones(1)), (packed[0], None), None, starts, ends))
    assert logits.hardware_flop == 2 * 4 * 8 * (2 + 3 + 2) and types_of(logits) == {"fp4"}
    ends_of_groups = torch.tensor([2, 6], dtype=torch.int32)
    aside = count(
        lambda: deep.m_grouped_fp8_gemm_nt_contiguous(
            fp8(M, K), fp8(2, N, K), torch.zeros(M, N), ends_of_groups, use_psum_layout=True
        )
    )
    assert aside.hardware_flop == 0 and "contiguous" in aside.uncounted()[0]["operator"]
    # Version 1 has other names, and one of its functions calls another that is wrapped too.
    old = count(lambda: deep.gemm_fp8_fp8_bf16_nt(lhs=fp8(M, K), rhs=fp8(N, K), out=torch.zeros(M, N)))
    assert old.hardware_flop == 2 * M * K * N
    grouped = (fp8(K * 12), fp8(N * 12), torch.zeros(2, K, N), [4, 8])
    assert count(lambda: deep.k_grouped_wgrad_gemm_fp8_fp8_fp32_nt(*grouped)).hardware_flop == 2 * 12 * K * N
    assert [each["operator"] for each in named.uncounted()] == ["deep_gemm::fp8_paged_mqa_logits"]


def test_flashinfer_counts_attention_and_products(standin, count):
    (infer,) = standin("flashinfer")
    q, k = torch.randn(4, 6, 8), torch.randn(5, 2, 8)
    assert count(lambda: infer.single_prefill_with_kv_cache(q, k, k, causal=True)).hardware_flop == 4 * 14 * 6 * 8
    assert count(lambda: infer.single_decode_with_kv_cache(q[0], k, k)).hardware_flop == 4 * 5 * 6 * 8
    ragged = infer.BatchPrefillWithRaggedKVCacheWrapper(None)
    ragged.plan(torch.tensor([0, 1, 4]), torch.tensor([0, 2, 5]), 6, 2, 8, causal=True)
    assert count(lambda: ragged.run(q, k, k)).hardware_flop == 4 * (2 + 6) * 6 * 8
    assert count(lambda: ragged.run_return_lse(q, k, k)).hardware_flop == 4 * (2 + 6) * 6 * 8
    assert ragged.run_return_lse(q, k, k)[1] is None
    mla = infer.BatchMLAPagedAttentionWrapper(None)
    nope, rope, keys = torch.randn(2, 6, 8), torch.randn(2, 6, 4), torch.tensor([5, 9], dtype=torch.int32)
    one = torch.tensor([0, 1, 2])
    mla.plan(one, one, one, keys, 6, 8, 4, 1, False, 0.1, torch.float32, torch.float32)
    assert count(lambda: mla.run(nope, rope, None, None)).hardware_flop == 2 * 14 * 6 * (8 + 4 + 8)
    other = infer.BatchMLAPagedAttentionWrapper(None, backend="cutlass")
    assert count(lambda: other.run(nope, rope, None, None, kv_len=keys)).hardware_flop == 2 * 14 * 6 * (8 + 4 + 8)
    assert (
        count(lambda: infer.bmm_fp8(B=k, A=k, A_scale=None, B_scale=None, dtype=torch.float32)).hardware_flop
        == 2 * 5 * 2 * 8 * 8
    )
    paged = infer.BatchDecodeWithPagedKVCacheWrapper(None)
    paged.plan(torch.tensor([0, 2, 5]), torch.arange(5), torch.tensor([3, 16]), 6, 2, 8, 16)
    cache = torch.randn(5, 2, 16, 2, 8)
    assert count(lambda: paged.run(q[:2], cache)).hardware_flop == 4 * (19 + 48) * 6 * 8
    a, b = torch.zeros(2, M, K, dtype=torch.float8_e4m3fn), torch.zeros(2, K, N, dtype=torch.float8_e4m3fn)
    fp8 = count(lambda: infer.bmm_fp8(a, b, None, None, torch.bfloat16))
    assert fp8.hardware_flop == 2 * 2 * M * K * N and types_of(fp8) == {"fp8"}
    fp4 = count(
        lambda: infer.mm_fp4(
            torch.zeros(M, K // 2, dtype=torch.uint8), torch.zeros(K // 2, N, dtype=torch.uint8), None, None
        )
    )
    assert fp4.hardware_flop == 2 * M * K * N and types_of(fp4) == {"fp4"}
    x, chosen = torch.randn(5, K), torch.zeros(5, 2, dtype=torch.int32)
    experts = count(
        lambda: infer.cutlass_fused_moe(
            x, chosen, None, torch.randn(4, 2 * N, K), torch.randn(4, K, N), torch.float32, []
        )
    )
    assert experts.hardware_flop == 2 * 10 * (2 * N * K + K * N)


def test_split_k_attention_of_xformers_counts(standin, count):
    (splitk,) = standin("xformers.ops.fmha.triton_splitk")
    inp = types.SimpleNamespace(
        query=torch.randn(2, 1, 6, 8), key=torch.randn(2, 9, 6, 8), value=torch.randn(2, 9, 6, 8), attn_bias=None
    )
    assert splitk.FwOp.apply(inp, False) == (inp.query, splitk.FwOp)
    assert count(lambda: splitk.FwOp.apply(inp, False)).hardware_flop == 4 * 2 * 9 * 6 * 8
    assert count(lambda: splitk.FwOp_S1.apply(inp=inp, needs_gradient=False)).hardware_flop == 4 * 2 * 9 * 6 * 8
    # Keys of 4 bits: eight in an int32, after one int32 with scales.
    inp.key = inp.value = torch.zeros(2, 9, 6, 2, dtype=torch.int32)
    assert count(lambda: splitk.FwOp.apply(inp, False)).hardware_flop == 4 * 2 * 9 * 6 * 8

    class BlockDiagonalCausalWithOffsetPaddedKeysMask:  # xformers/ops/fmha/attn_bias.py
        q_seqinfo = types.SimpleNamespace(seqstart_py=[0, 1, 2])
        k_seqinfo = types.SimpleNamespace(seqstart_py=[0, 9, 18], seqlen_py=[4, 7])

    inp.query, inp.attn_bias = torch.randn(1, 2, 6, 8), BlockDiagonalCausalWithOffsetPaddedKeysMask()
    assert count(lambda: splitk.FwOp.apply(inp, False)).hardware_flop == 4 * (4 + 7) * 6 * 8


def test_unsloths_product_with_one_row_counts(standin, count):
    (utils,) = standin("unsloth.kernels.utils")
    state = types.SimpleNamespace(shape=(N, K))
    assert (
        count(lambda: utils.fast_gemv(torch.randn(1, 1, K, dtype=torch.float16), None, state)).hardware_flop
        == 2 * K * N
    )
    plain = count(lambda: utils.fast_gemv(torch.randn(1, 1, K), torch.randn(K, N), None))  # torch.matmul counts once
    assert plain.hardware_flop == 2 * K * N


UNKNOWN = [
    ("transformer_engine", "3.1.0", ("transformer_engine.pytorch", "transformer_engine")),
    ("apex", "1.4", ("apex", "fused_dense_cuda")),
    ("flash_attn_2", "5.0", ("flash_attn",)),
    ("flash_attn_4", "7.0", ("flash_attn.cute.interface",)),
    ("grouped_gemm", "9.9", ("grouped_gemm",)),
    ("deep_gemm", "4.0.0", ("deep_gemm",)),
    ("flashinfer", "1.2.0", ("flashinfer",)),
    ("xformers", "2.0", ("xformers.ops.fmha.triton_splitk",)),
    ("unsloth", "1999.1", ("unsloth", "unsloth.kernels.utils")),
]


@pytest.mark.parametrize("name, version, modules", UNKNOWN, ids=[each[0] for each in UNKNOWN])
def test_an_unknown_version_is_left_alone_and_named(standin, name, version, modules):
    loaded = standin(*modules, version=version)
    told, state, why = standin.said[name]
    assert told == version and state == "unknown" and "another version" in why
    for module in loaded:
        assert not any(getattr(value, "_mfu_wrapped", False) for value in vars(module).values())


def test_a_call_that_was_not_read_steps_aside_and_never_raises_ours(standin, count):
    standin("transformer_engine.pytorch")
    import transformer_engine_torch as tex

    original = tex.generic_gemm.__wrapped__
    assert tex.generic_gemm.__name__ == "generic_gemm"
    with pytest.raises(TypeError) as ours:
        tex.generic_gemm()
    with pytest.raises(TypeError) as theirs:
        original()
    assert str(ours.value) == str(theirs.value)
    rest = (None, None, None, None, None, False, None, False, torch.empty(4), 4, False, False)
    counted = count(lambda: tex.generic_gemm(torch.zeros(N, K), 1, torch.zeros(M, K), 0, *rest))  # flags as numbers
    assert counted.hardware_flop == 0 and counted.uncounted()[0]["operator"] == "transformer_engine::generic_gemm"
    assert standin.said["transformer_engine"][1] == "unknown"


def test_nothing_of_these_libraries_is_imported_by_counting(observer):
    import subprocess
    import sys

    code = (
        "import torch; from mfu import _observer; _observer.start(region_folder=''); import sys; print([m for m in"
        " sys.modules if 'libraries.' in m])"
    )
    import os
    from pathlib import Path

    path = str(Path(observer.__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
