"""Stands in for transformer_engine/pytorch of NVIDIA/TransformerEngine. There load_framework_extension() of
transformer_engine/common/__init__.py puts the extension into sys.modules by hand, and so it is done here. Signatures
are those of transformer_engine/pytorch/csrc/extensions/pybind.cpp (generic_gemm has argument names, the others have
none) and of the calls in transformer_engine/pytorch/cpp_extensions/."""

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


class NVTE_Softmax_Type(enum.Enum):
    NVTE_VANILLA_SOFTMAX = 0


class NVTE_QKV_Format(enum.Enum):
    NVTE_BSHD = 0


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


# attention.cpp. In 2.0 to 2.7 the arguments are (max_seqlen_q, max_seqlen_kv, is_training, attn_scale, p_dropout,
# set_zero, qkv_layout, bias_type, attn_mask_type, window_size, cu_seqlens_q, cu_seqlens_kv, Q, K, V, fake_dtype, …).
# Later versions have softmax_type, formats and bottom_right_diagonal between them. The C++ functions take positional
# arguments only.
def fused_attn_fwd(*args):
    if len(args) < 20:
        raise TypeError("incompatible function arguments")
    return [torch.zeros(1), torch.zeros(1), torch.zeros(2)]


# (max_seqlen_q, max_seqlen_kv, attn_scale, p_dropout, set_zero, qkv_layout, bias_type, attn_mask_type, window_size,
# deterministic, cu_seqlens_q, cu_seqlens_kv, Q, K, V, O, dO, fake_dtype, …)
def fused_attn_bwd(*args):
    if len(args) < 20:
        raise TypeError("incompatible function arguments")
    return [torch.zeros(1), torch.zeros(1), torch.zeros(1)]


def te_general_grouped_gemm_for_grouped_tensor(*args):
    return None


def get_fused_attn_backend(*args):
    return 1


for each in (
    NVTE_QKV_Layout,
    NVTE_Bias_Type,
    NVTE_Mask_Type,
    NVTE_Softmax_Type,
    NVTE_QKV_Format,
    te_general_grouped_gemm_for_grouped_tensor,
    get_fused_attn_backend,
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
        comm_overlap=None,
        comm_type=None,
        extra_output=None,
        bulk_overlap=False,
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
