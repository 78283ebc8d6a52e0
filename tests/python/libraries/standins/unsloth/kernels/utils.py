"""unsloth/kernels/utils.py of unslothai/unsloth."""

import torch


def fast_gemv(X, W, quant_state, out=None):
    return torch.zeros(1, 1, quant_state.shape[0], dtype=X.dtype)
