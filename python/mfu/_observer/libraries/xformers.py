"""xformers: split-K attention in Triton, `xformers.ops.fmha.triton_splitk.FwOp.apply(inp, needs_gradient)`.

The signature is from xformers/ops/fmha/triton_splitk.py of facebookresearch/xformers, and the fields of biases from
xformers/ops/fmha/attn_bias.py. Its flash and cutlass operators go through the dispatcher and are in the operator table.
"""

from .flash_attn_2 import worker
from .formulas import pairs, shape_of
from .wrapping import Aside


def splitk(arguments, result):
    """(cls, inp, needs_gradient); inp has query [batch, length, (groups,) heads, width], key, value and attn_bias. Keys
    of 4 bits are stored as int32 with eight numbers each, behind their scales, so only the query tells the width."""
    inp = arguments.need(1, "inp")
    if not hasattr(inp, "query"):
        raise Aside("its inputs have no query")
    q, k, v, bias = inp.query, inp.key, inp.value, getattr(inp, "attn_bias", None)
    shape = shape_of(q)
    heads = shape[-2] * (shape[-3] if len(shape) == 5 else 1)
    packed = not v.is_floating_point()
    make = worker(q, q if packed else v, False, heads)
    if bias is None or hasattr(bias, "shape") and not hasattr(bias, "q_seqinfo"):  # a tensor is added to all scores
        return make(shape[0] * pairs(shape[1], shape_of(k)[1]))
    kind = type(bias).__name__
    queries, keys = getattr(bias, "q_seqinfo", None), getattr(bias, "k_seqinfo", None)
    if queries is None or keys is None or "Local" in kind or "Paged" in kind or "Chunk" in kind:
        raise Aside(f"a bias of type {kind}")
    starts = list(queries.seqstart_py)
    lengths = getattr(keys, "seqlen_py", None)
    if lengths is None:
        offsets = list(keys.seqstart_py)
        lengths = [after - before for before, after in zip(offsets, offsets[1:])]
    counts = [after - before for before, after in zip(starts, starts[1:])]
    causal, bottom = "Causal" in kind, "FromBottomRight" in kind or "Offset" in kind
    return make(sum(pairs(a, b, causal, bottom) for a, b in zip(counts, lengths)))


def install(module, book):
    if not book.reads(("xformers",), (0, 0), (0, 0)):
        return
    kind = getattr(module, "FwOp", None)
    apply = vars(kind).get("apply") if isinstance(kind, type) else None
    if not isinstance(apply, classmethod):
        raise Aside("there is no FwOp.apply")
    watched = book.watched(apply.__func__, splitk, "xformers::triton_splitk")
    kind.apply = classmethod(watched)
