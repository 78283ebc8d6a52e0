"""flash-attn 2.0 to 2.8: its pybind module `flash_attn_2_cuda`. From 2.7 on a custom operator stands around it but for
fwd_kvcache; then the operator is counted, and not what it calls.

Written from memory of csrc/flash_attn/flash_api.cpp (Dao-AILab/flash-attention), not checked against it. Optional tensors
were added in front of the flags from version to version; the flags are found by their types: is_causal,
window_size_left and window_size_right are a boolean and two integers beside each other.
"""

from .formulas import attention, pairs, shape_of, wider
from .lengths import by_lengths, by_values
from .wrapping import Aside, Like, Work, version_of


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def flags(args, packed=False):
    """(is_causal, window_left, window_right)"""
    for first, second, third in zip(args, args[1:], args[2:]):
        if isinstance(first, bool) and _is_integer(second) and _is_integer(third):
            return first, second, third
    # Before 2.3 there were no windows: zero_tensors of packed sequences, then is_causal, are the first booleans.
    found = [value for value in args if isinstance(value, bool)]
    place = 1 if packed else 0
    if len(found) <= place:
        raise Aside("is_causal was not found")
    return found[place], -1, -1


def worker(q, v, backward, heads=None):
    """Makes work of pairs; it holds no tensor."""
    like, width_v = Like(q, wider(q, v)), shape_of(v)[-1]
    heads = heads or like.shape[-2]

    def work(seen):
        hardware, model = attention(seen * heads, like.shape[-1], width_v, backward)
        return Work(hardware, like.type, like, model=model)

    return work


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


def packed(first, offsets, backward):
    """(q, k, v, out, cu_seqlens_q, cu_seqlens_k, …); [tokens, heads, width]"""

    def formula(arguments, result):
        args = arguments.args
        q, k, v = args[first : first + 3]
        causal, left, right = flags(args, packed=True)

        make = worker(q, v, backward)

        def work(lengths_q, lengths_k):
            return make(sum(pairs(a, b, causal, True, left, right) for a, b in zip(lengths_q, lengths_k)))

        return by_lengths(args[offsets : offsets + 2], work)

    return formula


def cached(arguments, result):
    """(q, kcache, vcache, k, v, seqlens_k, …): keys in the cache and the new ones; seqlens_k says how many are
    there."""
    args = arguments.args
    q, keys, values = args[:3]
    batch, queries = shape_of(q)[:2]
    new = shape_of(args[3])[1] if args[3] is not None else 0
    causal, left, right = flags(args)
    if args[5] is None:
        seen = batch * pairs(queries, shape_of(keys)[1], causal, True, left, right)
        return worker(q, values, False)(seen)
    make = worker(q, values, False)

    def work(lengths):
        return make(sum(pairs(queries, length + new, causal, True, left, right) for length in lengths))

    return by_values((args[5],), work)


def install(module, book):
    if not book.reads(version_of("flash_attn", "flash-attn"), (2, 0), (2, 8)):
        return
    found = book.wrap(module, "fwd", dense(0, False))
    found += book.wrap(module, "bwd", dense(1, True))
    found += book.wrap(module, "varlen_fwd", packed(0, 4, False))
    found += book.wrap(module, "varlen_bwd", packed(1, 9, True))
    found += book.wrap(module, "fwd_kvcache", cached)
    if not found:
        raise Aside("it has none of the functions that were read")
