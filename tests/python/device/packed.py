"""flash-attn's operators of packed sequences, with the signatures of flash_attn/flash_attn_interface.py of
Dao-AILab/flash-attention (2.7 on), on the test device and on the CPU: they return zeros. And a program that trains with
them
(python packed.py), for `mfu run`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "device"))

import late  # noqa: E402
import torch  # noqa: E402

HEADS, WIDTH = 2, 8
OFFSETS = (0, 3, 7, 12)
# Causal: n(n + 1)/2 pairs of a sequence of n.
PAIRS = 6 + 10 + 15
FORWARD, BACKWARD = 4 * PAIRS * HEADS * WIDTH, 10 * PAIRS * HEADS * WIDTH
STEPS = 5

library = torch.library.Library("flash_attn", "FRAGMENT")
library.define(
    "_flash_attn_varlen_forward(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, "
    "SymInt max_seqlen_q, "
    "SymInt max_seqlen_k, float dropout_p, float softmax_scale, bool causal, SymInt window_size_left=-1, "
    "SymInt window_size_right=-1, float softcap=0.0, Tensor? alibi_slopes=None, bool return_softmax=False, "
    "Tensor? block_table=None, Tensor? leftpad_k=None, Tensor? seqused_k=None) -> (Tensor, Tensor, Tensor, Tensor)"
)
library.define(
    "_flash_attn_varlen_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, "
    "Tensor(a!)? dq, "
    "Tensor(b!)? dk, Tensor(c!)? dv, Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, "
    "SymInt max_seqlen_k, "
    "float dropout_p, float softmax_scale, bool causal, SymInt window_size_left, SymInt window_size_right, "
    "float softcap, "
    "Tensor? alibi_slopes, bool deterministic, Tensor? rng_state=None) -> Tensor"
)


inside = []  # the functions that the operator calls


def _forward(q, *rest):
    for each in inside:
        each()
    return torch.zeros_like(q), torch.zeros_like(q), torch.zeros_like(q), torch.zeros_like(q)


def _backward(dout, q, *rest):
    return torch.zeros_like(q)


for key in ("CPU", "PrivateUse1"):
    library.impl("_flash_attn_varlen_forward", _forward, key)
    library.impl("_flash_attn_varlen_backward", _backward, key)


def forward(q, offsets, **more):
    return torch.ops.flash_attn._flash_attn_varlen_forward(q, q, q, offsets, offsets, 5, 5, 0.0, 0.1, True, **more)[0]


class Attention(torch.autograd.Function):
    """As FlashAttnVarlenFunc."""

    @staticmethod
    def forward(ctx, q, offsets):
        ctx.save_for_backward(q, offsets)
        return forward(q.detach(), offsets)

    @staticmethod
    def backward(ctx, g):
        q, offsets = ctx.saved_tensors
        more = (offsets, offsets, 5, 5, 0.0, 0.1, True, -1, -1, 0.0, None, False)
        torch.ops.flash_attn._flash_attn_varlen_backward(g, q, q, q, q, q, None, None, None, *more)
        return g, None


def main():
    """One layer, then attention twice with the same offsets. The host is so far ahead that no offsets have arrived."""
    layer = torch.nn.Linear(WIDTH, WIDTH, bias=False).to("late")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    for _ in range(STEPS):
        late.sleep(0.02)
        offsets = torch.tensor(OFFSETS, dtype=torch.int32).to("late")
        q = layer(torch.randn(OFFSETS[-1] * HEADS, WIDTH, device="late")).view(-1, HEADS, WIDTH)
        Attention.apply(Attention.apply(q, offsets), offsets).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    late.synchronize()  # as reading a loss at the end does


if __name__ == "__main__":
    main()
