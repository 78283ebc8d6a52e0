"""FlashAttention-4 (CuTe): `flash_attn.cute.interface`, an autograd.Function over kernels of cute.compile.

Read in flash_attn/cute/interface.py of Dao-AILab/flash-attention: `_flash_attn_fwd(q, k, v, cu_seqlens_q,
cu_seqlens_k,
seqused_q, seqused_k, …, causal, …, window_size_left, window_size_right, …)` and `_flash_attn_bwd(q, k, v, out,
dout, …)`.
They are plain functions: arguments are taken by name, and a name that is missing steps aside.
"""

from .flash_attn_2 import worker
from .formulas import pairs, shape_of
from .lengths import by_lengths, by_values
from .wrapping import Aside, version_of


def formula_of(function, backward):
    def formula(arguments, result):
        given = arguments.named(function)
        for name in ("q", "k", "v", "causal"):
            if name not in given:
                raise Aside(f"no {name}")
        q, k, v, causal = given["q"], given["k"], given["v"], bool(given["causal"])
        left, right = (
            -1 if given.get(name) is None else given[name] for name in ("window_size_left", "window_size_right")
        )
        for name in ("page_table", "block_sparse_tensors", "mask_mod"):
            if given.get(name) is not None:
                raise Aside(f"{name} is given: what it leaves out is not known")
        make = worker(q, v, backward)
        seen = lambda a, b: pairs(a, b, causal, True, left, right)  # noqa: E731
        offsets = given.get("cu_seqlens_q"), given.get("cu_seqlens_k")
        used = given.get("seqused_q"), given.get("seqused_k")
        if offsets[0] is not None and offsets[1] is not None and used == (None, None):
            return by_lengths(offsets, lambda lq, lk: make(sum(map(seen, lq, lk))))
        if used != (None, None):
            if offsets != (None, None) or used[1] is None or len(shape_of(q)) != 4:
                raise Aside("lengths in use beside offsets")
            queries = shape_of(q)[1]
            if used[0] is None:
                return by_values(used[1:], lambda keys: make(sum(seen(queries, each) for each in keys)))
            return by_values(used, lambda lq, lk: make(sum(map(seen, lq, lk))))
        if len(shape_of(q)) != 4:
            raise Aside("packed sequences without both offsets")
        return make(shape_of(q)[0] * seen(shape_of(q)[1], shape_of(k)[1]))

    return formula


def install(module, book):
    if not book.reads(version_of("flash_attn.cute", "flash-attn-4", "flash-attn-cute"), (0, 0), (4, 9)):
        return
    for name, backward in (("_flash_attn_fwd", False), ("_flash_attn_bwd", True)):
        function = getattr(module, name, None)
        if function is None or not book.wrap(module, name, formula_of(function, backward)):
            raise Aside(f"there is no {name}")
