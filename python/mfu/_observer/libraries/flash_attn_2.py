"""flash-attn 2.0 to 2.8: its pybind module `flash_attn_2_cuda`. From 2.7 on, custom operators wrap its functions except
fwd_kvcache. Then the operator is counted, and not what it calls.

The signatures are from Dao-AILab/flash-attention: csrc/flash_attn/flash_api.cpp (mha_fwd, mha_varlen_fwd,
mha_varlen_bwd, mha_fwd_kvcache) and flash_attn/flash_attn_interface.py. Older ones are from code that calls them (2.0
without windows and alibi, 2.5 with a block table, 2.6 with softcap). Arguments have no names. Newer versions have more
optional tensors, all before the first number: their count tells which version it is. is_causal, window_size_left and
window_size_right are a boolean and two integers in a row.
"""

import re

from .formulas import attention, pairs, shape_of, wider
from .lengths import Side, by_sides
from .wrapping import Aside, Like, Work


OTHERS = re.compile(r"(^|_)(fwd|bwd)")


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def flags(args, packed=False):
    """(is_causal, window_left, window_right)"""
    for first, second, third in zip(args, args[1:], args[2:]):
        if isinstance(first, bool) and _is_integer(second) and _is_integer(third):
            return first, second, third
    # Before 2.3 there were no windows. The first booleans are zero_tensors (packed sequences only), then is_causal.
    found = [value for value in args if isinstance(value, bool)]
    place = 1 if packed else 0
    if len(found) <= place:
        raise Aside("is_causal was not found")
    return found[place], -1, -1


def worker(q, v, backward, heads=None, width_v=None):
    """A function that makes Work of a number of pairs. It keeps no tensor alive."""
    like, width_v = Like(q, wider(q, v)), width_v or shape_of(v)[-1]
    heads = heads or like.shape[-2]

    def work(seen):
        hardware, model = attention(seen * heads, like.shape[-1], width_v, backward)
        return Work(hardware, like.type, like, model=model)

    return work


def seen_by(make, causal, left=-1, right=-1):
    """A function that makes Work of the lengths of queries and of keys."""
    return lambda queries, keys: make(sum(pairs(a, b, causal, True, left, right) for a, b in zip(queries, keys)))


def dense(first, backward):
    """(q, k, v, …) or, backward, (dout, q, k, v, …); [batch, length, heads, width]"""

    def formula(arguments, result):
        args = arguments.args
        q, k, v = args[first : first + 3]
        if len(shape_of(q)) != 4:
            raise Aside("the query has not four dimensions")
        causal, left, right = flags(args)
        seen = shape_of(q)[0] * pairs(shape_of(q)[1], shape_of(k)[1], causal, True, left, right)
        return worker(q, v, backward)(seen)

    return formula


def _optional(args, first, names):
    """The optional tensors between `first` and the first number, by name."""
    given = []
    for value in args[first:]:
        if isinstance(value, (int, float)):
            break
        given.append(value)
    if len(given) not in names:
        raise Aside(f"{len(given)} optional tensors")
    return dict(zip(names[len(given)], given))


# The names of the optional tensors, by how many there are.
PACKED = {
    0: (),
    1: ("seqused_k",),
    2: ("seqused_k", "alibi_slopes"),
    3: ("seqused_k", "block_table", "alibi_slopes"),
    4: ("seqused_k", "leftpad_k", "block_table", "alibi_slopes"),
}
PACKED_BACKWARD = {0: (), 1: ("alibi_slopes",)}
CACHED = {
    0: (),
    1: ("out",),
    2: ("alibi_slopes", "out"),
    3: ("block_table", "alibi_slopes", "out"),
    4: ("leftpad_k", "block_table", "alibi_slopes", "out"),
}


def packed(first, offsets, backward):
    """(q, k, v, out, cu_seqlens_q, cu_seqlens_k, …); [tokens, heads, width]"""

    def formula(arguments, result):
        args = arguments.args
        q, k, v = args[first : first + 3]
        causal, left, right = flags(args, packed=True)
        more = _optional(args, offsets + 2, PACKED_BACKWARD if backward else PACKED)
        return by_sides(
            shape_of(args[offsets])[0] - 1,
            Side(0, args[offsets]),
            Side(0, args[offsets + 1], more.get("seqused_k"), more.get("leftpad_k")),
            seen_by(worker(q, v, backward), causal, left, right),
        )

    return formula


def cached(arguments, result):
    """(q, kcache, vcache, k, v, seqlens_k, rotary_cos, rotary_sin, cache_batch_idx, …): keys in the cache and the new
    ones. seqlens_k says how many keys are in the cache; without it, the cache is full. With a block table the cache is
    [blocks, size, …]."""
    args = arguments.args
    q, keys, values = args[:3]
    batch, queries = shape_of(q)[:2]
    new = shape_of(args[3])[1] if args[3] is not None else 0
    causal, left, right = flags(args)
    more = _optional(args, 9, CACHED)
    table, length = more.get("block_table"), shape_of(keys)[1]
    if table is not None:
        length *= shape_of(table)[1]
    work = seen_by(worker(q, values, False), causal, left, right)
    return by_sides(
        batch,
        Side(queries),
        Side(length, None, args[5], more.get("leftpad_k")),
        lambda lengths_q, lengths_k: work(lengths_q, [length + new for length in lengths_k]),
    )


def install(module, book):
    if not book.reads(("flash_attn", "flash-attn"), (2, 0), (2, 8)):
        return
    found = book.wrap(module, "fwd", dense(0, False))
    found += book.wrap(module, "bwd", dense(1, True))
    found += book.wrap(module, "varlen_fwd", packed(0, 4, False))
    found += book.wrap(module, "varlen_bwd", packed(1, 9, True))
    found += book.wrap(module, "fwd_kvcache", cached)
    if not found:
        raise Aside("it has none of the functions that were read")
    book.name_rest(module, OTHERS)
