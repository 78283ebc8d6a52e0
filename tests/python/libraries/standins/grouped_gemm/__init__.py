"""grouped_gemm/backend.py of tgale96/grouped_gemm."""

import os

__version__ = os.environ.get("STANDIN_VERSION", "0.1.6")

import grouped_gemm_backend as backend  # noqa: E402


def gmm(a, b, batch_sizes, trans_a=False, trans_b=False, c=None):
    import torch

    if c is None:
        shape = (
            (batch_sizes.shape[0], a.shape[1], b.shape[1])
            if trans_a
            else (a.shape[0], b.shape[1] if trans_b else b.shape[2])
        )
        c = torch.empty(*shape, dtype=a.dtype)
    backend.gmm(a, b, c, batch_sizes, trans_a, trans_b)
    return c
