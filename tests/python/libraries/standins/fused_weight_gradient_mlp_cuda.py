"""csrc/megatron/fused_weight_gradient_dense.cpp of NVIDIA/apex."""


def wgrad_gemm_accum_fp32(input_2d, d_output_2d, d_weight, /):
    d_weight += d_output_2d.t().float() @ input_2d.float()


def wgrad_gemm_accum_fp16(input_2d, d_output_2d, d_weight, /):
    d_weight += d_output_2d.t() @ input_2d
