"""deepseek-ai/DeepGEMM: deep_gemm/__init__.py (2.8), signatures of csrc/apis/gemm.hpp, einsum.hpp and attention.hpp
with their py::arg names, and those of version 1 (deep_gemm/jit_kernels/m_grouped_gemm.py, wgrad_gemm.py)."""

import os


def fp8_gemm_nt(
    a, b, d, c=None, recipe=None, recipe_a=None, recipe_b=None, compiled_dims="nk", disable_ue8m0_cast=False
):
    d.zero_()


def bf16_gemm_nn(a, b, d, c=None, compiled_dims="nk"):
    d.zero_()


def fp8_gemm_nt_skip_head_mid(a, b, d, head_splits, recipe=None, compiled_dims="nk", disable_ue8m0_cast=False):
    d.zero_()


def m_grouped_fp8_gemm_nt_contiguous(
    a,
    b,
    d,
    grouped_layout,
    recipe=None,
    recipe_a=None,
    recipe_b=None,
    compiled_dims="nk",
    disable_ue8m0_cast=False,
    use_psum_layout=False,
):
    d.zero_()


def m_grouped_fp8_gemm_nt_masked(
    a, b, d, masked_m, expected_m, recipe=None, compiled_dims="nk", disable_ue8m0_cast=False
):
    d.zero_()


def k_grouped_fp8_gemm_tn_contiguous(a, b, d, ks, ks_tensor, c=None, recipe=(1, 1, 128), compiled_dims="mn"):
    d.zero_()


def einsum(expr, a, b, d, c=None):
    d.zero_()


def fp8_einsum(expr, a, b, d, c=None, recipe=(1, 128, 128)):
    d.zero_()


def fp8_mqa_logits(q, kv, weights, cu_seq_len_k_start, cu_seq_len_k_end, clean_logits=True, max_seqlen_k=0):
    return None


def fp8_fp4_mqa_logits(
    q, kv, weights, cu_seq_len_k_start, cu_seq_len_k_end, clean_logits=True, max_seqlen_k=0, logits_dtype=None
):
    return None


def fp8_paged_mqa_logits(
    q, fused_kv_cache, weights, context_lens, block_table, schedule_meta, max_context_len, clean_logits
):
    return None


# Version 1
def gemm_fp8_fp8_bf16_nt(lhs, rhs, out):
    out.zero_()


def m_grouped_gemm_fp8_fp8_bf16_nt_contiguous(lhs, rhs, out, m_indices):
    out.zero_()


def wgrad_gemm_fp8_fp8_fp32_nt(lhs, rhs, out):
    out.zero_()


def k_grouped_wgrad_gemm_fp8_fp8_fp32_nt(lhs, rhs, out, batch_sizes):
    """Calls the function above once for each group."""
    m, n, k = out.shape[1], out.shape[2], 0
    for group, size in enumerate(batch_sizes):
        a = (lhs[0].view(-1)[m * k : m * (k + size)].view(m, size), lhs[1])
        b = (rhs[0].view(-1)[n * k : n * (k + size)].view(n, size), rhs[1])
        wgrad_gemm_fp8_fp8_fp32_nt(a, b, out[group])
        k += size


def get_num_sms():
    return 132


__version__ = os.environ.get("STANDIN_VERSION", "2.1.0")
