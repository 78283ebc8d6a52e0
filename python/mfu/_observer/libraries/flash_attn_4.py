"""FlashAttention-4 (CuTe): `flash_attn.cute.interface`, an autograd.Function over kernels of cute.compile.

The signatures are from flash_attn/cute/interface.py of Dao-AILab/flash-attention: `_flash_attn_fwd(q, k, v,
cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, …, causal, …, window_size_left, window_size_right, …)` and
`_flash_attn_bwd(q, k, v, out, dout, …)`. They are plain functions that change often, so arguments are taken by name. A
tensor or a function under a name that we do not know (`qv`, `gather_kv_indices`, …) may change the amount of work, so
such a call is not counted.
"""

from .flash_attn_2 import seen_by, worker
from .formulas import shape_of
from .lengths import Side, by_sides
from .wrapping import Aside

# These arguments may be tensors or functions and do not change how much is multiplied.
HARMLESS = (
    "q k v out dout lse dq dk dv dlse cu_seqlens_q cu_seqlens_k seqused_q seqused_k page_table learnable_sink score_mod"
    " score_mod_bwd aux_tensors buffers q_descale k_descale v_descale softmax_scale dq_semaphore dk_semaphore"
    " dv_semaphore"
).split()


def _window(given, causal):
    """(left, right); −1: no limit. A window that would leave nothing is no window."""
    left, right = given.get("window_size_left"), 0 if causal else given.get("window_size_right")
    if left is not None and right is not None and left + right < 0:
        left = right = None
    if (left or 0) < 0 or (right or 0) < 0:
        raise Aside("a window that begins beside the diagonal")
    return -1 if left is None else left, -1 if right is None else right


def formula_of(function, backward):
    def formula(arguments, result):
        given = arguments.named(function)
        for name in ("q", "k", "v", "causal"):
            if name not in given:
                raise Aside(f"no {name}")
        for name, value in given.items():
            unknown = (
                hasattr(value, "shape") or callable(value) or isinstance(value, tuple) and hasattr(value, "_fields")
            )
            if unknown and name not in HARMLESS:
                raise Aside(f"{name} is given: what it changes is not known")
        q, k, v, causal = given["q"], given["k"], given["v"], bool(given["causal"])
        left, right = _window(given, causal)
        offsets_q, offsets_k = given.get("cu_seqlens_q"), given.get("cu_seqlens_k")
        used_q, used_k = given.get("seqused_q"), given.get("seqused_k")
        if given.get("page_table") is not None and used_k is None:
            raise Aside("pages without how much of them is used")
        batch = shape_of(q)[0] if offsets_q is None else shape_of(offsets_q)[0] - 1
        if offsets_q is None and len(shape_of(q)) != 4 or offsets_k is None and len(shape_of(k)) != 4:
            raise Aside("packed sequences without offsets")
        return by_sides(
            batch,
            Side(shape_of(q)[-3], offsets_q, used_q),
            Side(shape_of(k)[-3], offsets_k, used_k),
            seen_by(worker(q, v, backward), causal, left, right),
        )

    return formula


def install(module, book):
    if not book.reads(("flash_attn.cute", "flash-attn-4", "flash-attn-cute"), (0, 0), (4, 9)):
        return
    for name, backward in (("_flash_attn_fwd", False), ("_flash_attn_bwd", True)):
        function = getattr(module, name, None)
        if function is None or not book.wrap(module, name, formula_of(function, backward)):
            raise Aside(f"there is no {name}")
