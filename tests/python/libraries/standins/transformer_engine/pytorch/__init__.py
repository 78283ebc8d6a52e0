"""transformer_engine/common/__init__.py load_framework_extension(): the extension goes into sys.modules by hand."""

import enum
import sys
import types

import torch

tex = types.ModuleType("transformer_engine_torch")


class NVTE_QKV_Layout(enum.Enum):
    NVTE_BSHD_BSHD_BSHD = 0
    NVTE_SBHD_SBHD_SBHD = 1
    NVTE_THD_THD_THD = 2


class NVTE_Bias_Type(enum.Enum):
    NVTE_NO_BIAS = 0


class NVTE_Mask_Type(enum.Enum):
    NVTE_NO_MASK = 0
    NVTE_CAUSAL_MASK = 1
    NVTE_PADDING_CAUSAL_MASK = 2


def _flat(tensor):
    return tensor.reshape(-1, tensor.shape[-1])


# transformer_engine/pytorch/csrc/extensions/pybind.cpp, gemm.cpp
def generic_gemm(
    A,
    transA,
    B,
    transB,
    D,
    quantizer,
    output_dtype,
    bias,
    bias_type,
    gelu,
    gelu_in,
    grad,
    workspace,
    workspace_size,
    accumulate,
    use_split_accumulator,
    comm_overlap=None,
    comm_type=None,
    extra_output=None,
    bulk_overlap=False,
    /,
):
    a, b = _flat(getattr(A, "_data", A)).float(), _flat(getattr(B, "_data", B)).float()
    out = (b.t() if transB else b) @ (a.t() if transA else a)
    if D is not None:
        D.copy_(D + out if accumulate else out)
        out = D
    return out, None, None, None


def te_general_grouped_gemm(
    A,
    transa,
    B,
    transb,
    D,
    D_type,
    m_splits,
    bias,
    bias_type,
    single_output,
    pre_gelu_out,
    grad,
    workspace,
    workspaceSize,
    accumulate,
    use_split_accumulator,
    math_sm_count,
    /,
):
    for a, b, d in zip(A, B, D):
        d.copy_((b.t() if transb else b) @ (a.t() if transa else a))
    return bias


# attention.cpp of TE 2.4
def fused_attn_fwd(
    max_seqlen_q,
    max_seqlen_kv,
    is_training,
    attn_scale,
    p_dropout,
    set_zero,
    qkv_layout,
    bias_type,
    attn_mask_type,
    window_size,
    cu_seqlens_q,
    cu_seqlens_kv,
    Q,
    K,
    V,
    fake_dtype,
    cu_seqlens_q_padded,
    cu_seqlens_kv_padded,
    page_table_k,
    page_table_v,
    s_quantizer,
    o_quantizer,
    Bias,
    rng_gen,
    rng_elts_per_thread,
    /,
):
    return [torch.zeros_like(Q), torch.zeros(1), torch.zeros(2)]


def fused_attn_bwd(
    max_seqlen_q,
    max_seqlen_kv,
    attn_scale,
    p_dropout,
    set_zero,
    qkv_layout,
    bias_type,
    attn_mask_type,
    window_size,
    deterministic,
    cu_seqlens_q,
    cu_seqlens_kv,
    Q,
    K,
    V,
    O,
    dO,
    fake_dtype,
    dqkv_type,
    Aux_CTX_Tensors,
    cu_seqlens_q_padded,
    cu_seqlens_kv_padded,
    s_quantizer,
    dp_quantizer,
    dqkv_quantizer,
    /,
):
    return [torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)]


for each in (
    NVTE_QKV_Layout,
    NVTE_Bias_Type,
    NVTE_Mask_Type,
    generic_gemm,
    te_general_grouped_gemm,
    fused_attn_fwd,
    fused_attn_bwd,
):
    setattr(tex, each.__name__, each)
sys.modules["transformer_engine_torch"] = tex


def general_gemm(A, B, layout="TN", out=None, accumulate=False, grad=False):
    """pytorch/cpp_extensions/gemm.py"""
    return tex.generic_gemm(
        A,
        layout[0] == "T",
        B,
        layout[1] == "T",
        out,
        None,
        None,
        None,
        None,
        False,
        None,
        grad,
        torch.empty(4),
        4,
        accumulate,
        False,
    )


class _Linear(torch.autograd.Function):
    """pytorch/module/linear.py"""

    @staticmethod
    def forward(ctx, inp, weight):
        ctx.save_for_backward(inp, weight)
        return general_gemm(weight, inp)[0].view(*inp.shape[:-1], weight.shape[0]).to(inp.dtype)

    @staticmethod
    def backward(ctx, grad):
        inp, weight = ctx.saved_tensors
        dgrad = general_gemm(weight, grad.contiguous(), "NN", grad=True)[0].view_as(inp).to(inp.dtype)
        wgrad = general_gemm(inp, grad.contiguous(), "NT", grad=True)[0].to(weight.dtype)
        return dgrad, wgrad


class Linear(torch.nn.Module):
    def __init__(self, in_features, out_features, dtype=torch.float32):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(out_features, in_features, dtype=dtype))

    def forward(self, inp):
        return _Linear.apply(inp, self.weight)
