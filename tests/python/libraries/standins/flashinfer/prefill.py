"""flashinfer/prefill.py of flashinfer-ai/flashinfer: run_return_lse and begin_forward are as there."""

import functools

import torch


def single_prefill_with_kv_cache(
    q,
    k,
    v,
    scale_q=None,
    scale_k=None,
    scale_v=None,
    o_dtype=None,
    custom_mask=None,
    packed_custom_mask=None,
    causal=False,
    kv_layout="NHD",
    pos_encoding_mode="NONE",
    use_fp16_qk_reduction=False,
    sm_scale=None,
    window_left=-1,
    logits_soft_cap=None,
    rope_scale=None,
    rope_theta=None,
    backend="auto",
    return_lse=False,
):
    return torch.zeros_like(q)


class BatchPrefillWithRaggedKVCacheWrapper:
    def __init__(self, workspace, kv_layout="NHD"):
        pass

    def plan(
        self,
        qo_indptr,
        kv_indptr,
        num_qo_heads,
        num_kv_heads,
        head_dim_qk,
        head_dim_vo=None,
        custom_mask=None,
        packed_custom_mask=None,
        causal=False,
        pos_encoding_mode="NONE",
        use_fp16_qk_reduction=False,
        window_left=-1,
    ):
        self.planned = True

    begin_forward = plan

    def run(self, q, k, v, *args, q_scale=None, k_scale=None, v_scale=None, out=None, lse=None, return_lse=False):
        return (torch.zeros_like(q), None) if return_lse else torch.zeros_like(q)

    run_return_lse = functools.partialmethod(run, return_lse=True)
