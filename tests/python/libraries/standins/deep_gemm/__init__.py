"""deep_gemm/__init__.py and csrc/apis/gemm.hpp of deepseek-ai/DeepGEMM."""

import os


def fp8_gemm_nt(a, b, d, c=None, recipe=None, compiled_dims="nk", disable_ue8m0_cast=False, /):
    d.zero_()


def bf16_gemm_nn(a, b, d, c=None, compiled_dims="nk", /):
    d.zero_()


def m_grouped_fp8_gemm_nt_contiguous(
    a, b, d, m_indices, recipe=None, compiled_dims="nk", disable_ue8m0_cast=False, /
):
    d.zero_()


def m_grouped_fp8_gemm_nt_masked(
    a, b, d, masked_m, expected_m, recipe=None, compiled_dims="nk", disable_ue8m0_cast=False, /
):
    d.zero_()


def k_grouped_fp8_gemm_tn_contiguous(a, b, d, ks, ks_tensor, c=None, recipe=(1, 1, 128), compiled_dims="mn", /):
    d.zero_()


def einsum(expr, a, b, d, c=None, use_cublaslt=False, /):
    d.zero_()


def fp8_paged_mqa_logits(
    q, fused_kv_cache, weights, context_lens, block_table, schedule_meta, max_context_len, clean_logits, /
):
    return None


def get_num_sms():
    return 132


__version__ = os.environ.get("STANDIN_VERSION", "2.1.0")
