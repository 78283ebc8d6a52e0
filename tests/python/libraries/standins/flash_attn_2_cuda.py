"""csrc/flash_attn/flash_api.cpp of Dao-AILab/flash-attention, PYBIND11_MODULE(TORCH_EXTENSION_NAME, m): mha_fwd and its
kin have no argument names. Older forms are in test_libraries.py, by version."""

import torch


def fwd(
    q,
    k,
    v,
    out_,
    alibi_slopes_,
    p_dropout,
    softmax_scale,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    return_softmax,
    gen_,
    /,
):
    return [torch.zeros_like(q), q, k, v, torch.zeros_like(q), torch.zeros(1), None, torch.zeros(2)]


def varlen_fwd(
    q,
    k,
    v,
    out_,
    cu_seqlens_q,
    cu_seqlens_k,
    seqused_k,
    leftpad_k_,
    block_table_,
    alibi_slopes_,
    max_seqlen_q,
    max_seqlen_k,
    p_dropout,
    softmax_scale,
    zero_tensors,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    return_softmax,
    gen_,
    /,
):
    return [torch.zeros_like(q), q, k, v, torch.zeros_like(q), torch.zeros(1), None, torch.zeros(2)]


def bwd(
    dout,
    q,
    k,
    v,
    out,
    softmax_lse,
    dq_,
    dk_,
    dv_,
    alibi_slopes_,
    p_dropout,
    softmax_scale,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    deterministic,
    gen_,
    rng_state,
    /,
):
    return [torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v), torch.zeros(1)]


def varlen_bwd(
    dout,
    q,
    k,
    v,
    out,
    softmax_lse,
    dq_,
    dk_,
    dv_,
    cu_seqlens_q,
    cu_seqlens_k,
    alibi_slopes_,
    max_seqlen_q,
    max_seqlen_k,
    p_dropout,
    softmax_scale,
    zero_tensors,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    deterministic,
    gen_,
    rng_state,
    /,
):
    return [torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v), torch.zeros(1)]


def fwd_kvcache(
    q,
    kcache,
    vcache,
    k_,
    v_,
    seqlens_k_,
    rotary_cos_,
    rotary_sin_,
    cache_batch_idx_,
    leftpad_k_,
    block_table_,
    alibi_slopes_,
    out_,
    softmax_scale,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    is_rotary_interleaved,
    num_splits,
    /,
):
    return [torch.zeros_like(q), torch.zeros(1)]
