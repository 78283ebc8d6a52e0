"""Attention of a class: fused, with the true area of its mask. This is a part of the script that ends with
ask_class.py."""

AREAS = {}  # attended pairs of all sequences for one head, by the storage of a mask that a rule made
MOST_EVALUATED = 1 << 22


def whole(sizes):
    product = 1
    for size in sizes:
        product *= size
    return product


def pairs_of(torch, values, query, key, mask, causal):
    """Attended pairs of all sequences and heads, and whether they are known."""
    rows, columns = query.shape[-2], key.shape[-2]
    batch, heads = whole(query.shape[:-3]), query.shape[-3] if query.dim() > 2 else 1
    if mask is not None:
        area = AREAS.get(mask.untyped_storage()._cdata)
        if area is not None and area[1:] == (rows, columns):
            return batch * heads * area[0], True
        twin = values.of(mask)
        if twin is None:
            return batch * heads * rows * columns, False
        seen = twin if twin.dtype == torch.bool else twin > -1e4
        repeated = batch * heads * rows * columns // max(1, whole(torch.broadcast_shapes(seen.shape, (rows, columns))))
        return repeated * int(seen.expand(torch.broadcast_shapes(seen.shape, (rows, columns))).sum()), True
    if causal:  # torch's own: the first row sees the first key
        seen = min(rows, columns)
        return batch * heads * (seen * (seen + 1) // 2 + max(0, rows - columns) * columns), True
    return batch * heads * rows * columns, True


def fused(
    torch,
    recorder,
    values,
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
    bias=None,
):
    pairs, known = pairs_of(torch, values, query, key, attn_mask, is_causal)
    if not known:
        recorder.assumed.add("an attention's mask is a tensor whose values are not known: all pairs are counted")
    full = whole(query.shape[:-1]) * key.shape[-2]
    row = {"pairs": pairs, "full": full, "qk": query.shape[-1], "v": value.shape[-1], "t": dtype_name(query.dtype)}

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(context, query, key, value, mask, bias):
            context.shapes = query, key, value, mask, bias
            recorder.add("attention", [row])
            return query.new_empty((*query.shape[:-1], value.shape[-1]))

        @staticmethod
        def backward(context, gradient):
            needed = dict(zip(("dq", "dk", "dv"), context.needs_input_grad))
            recorder.add("attention_backward", [row if all(needed.values()) else row | needed])
            return tuple(
                torch.empty_like(each) if each is not None and each.is_floating_point() else None
                for each in context.shapes
            )

    return Attention.apply(query, key, value, attn_mask, bias)  # a mask may be learned


def area_of(torch, rule, rows, columns, first, offset):
    """The pairs that a rule allows; and the mask, if all pairs were tried. If there are many, each row is taken to be
    the run of keys around its own."""
    zero = torch.zeros((), dtype=torch.long)

    def seen(queries, keys):
        found = torch.as_tensor(rule(zero, zero, queries, keys))
        return found.expand(torch.broadcast_shapes(queries.shape, keys.shape))

    def counted(picked):
        keys = torch.arange(columns)[None, :] + offset
        return torch.cat(
            [seen(some[:, None] + first, keys).sum(1) for some in picked.split(max(1, MOST_EVALUATED // columns))]
        )

    every = torch.arange(rows)
    if rows * columns <= MOST_EVALUATED:
        found = seen(every[:, None] + first, torch.arange(columns)[None, :] + offset)
        return int(found.sum()), found
    queries = every + first
    own = (queries - offset).clamp(0, columns - 1)
    low, high, bottom, top = torch.zeros_like(own), own.clone(), own.clone(), torch.full_like(own, columns - 1)
    for _ in range(columns.bit_length() + 1):  # finds where the run begins and where it ends
        middle = (low + high) // 2
        inside = seen(queries, middle + offset)
        low, high = torch.where(inside, low, torch.minimum(middle + 1, high)), torch.where(inside, middle, high)
        middle = (bottom + top + 1) // 2
        inside = seen(queries, middle + offset)
        bottom, top = torch.where(inside, middle, bottom), torch.where(inside, top, torch.maximum(middle - 1, bottom))
    runs = torch.where(seen(queries, own + offset), bottom - high + 1, torch.zeros_like(own))
    tried = torch.unique(
        torch.cat(
            [torch.linspace(0, rows - 1, 48).long(), torch.arange(min(rows, 8)), torch.arange(max(0, rows - 8), rows)]
        )
    )
    if torch.equal(counted(tried), runs[tried]):
        return int(runs.sum()), None
    return (int(counted(every).sum()) if rows * columns <= 1 << 31 else None), None


def in_memory(torch, values):
    """A mode in which the tensors that a rule uses have their values: padding, blocks, lengths."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Twins(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            given = [*tensors_of(torch, args), *tensors_of(torch, (kwargs or {}).values())]
            if not all(values.known(each) for each in given):
                raise LookupError("values that are not known")
            return values.run(func, args, kwargs or {})

    return Twins()


def masks(torch, transformers, recorder, values):
    """Registers an attention of our own. It is fused, and the true area of its masks is computed from the rule that
    makes them."""
    import inspect
    from transformers import masking_utils
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    made = inspect.signature(masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    twins = in_memory(torch, values)

    def mask(*args, **kwargs):
        bound = made.bind(*args, **kwargs).arguments
        rows, first = bound.get("q_length"), bound.get("q_offset", 0)
        position = bound.get("cache_position")
        if rows is None and position is not None:
            rows, first = position.shape[0], bound.get("kv_length") - position.shape[0]
        rule = bound.get("mask_function", masking_utils.causal_mask_function)
        columns, offset = bound["kv_length"], bound.get("kv_offset", 0)
        result = torch.empty((bound["batch_size"], 1, rows, columns), dtype=torch.bool, device="meta")
        try:
            with torch.device("cpu"), torch.utils._python_dispatch._disable_current_modes(), twins:
                pairs, seen = area_of(torch, rule, int(rows), int(columns), int(first), int(offset))
                if seen is not None and result.numel() <= MOST_KNOWN:
                    values.keep(result, seen)
        except Exception:  # a rule that looks at the values of a tensor
            pairs = None
        if pairs == rows * columns and bound.get("allow_is_bidirectional_skip") and bound.get("attention_mask") is None:
            return None  # as in the library, a mask that leaves nothing out is no mask
        if pairs is not None:
            AREAS[result.untyped_storage()._cdata] = (pairs, int(rows), int(columns))
            KEPT.append(result)
        return result

    if hasattr(masking_utils, "find_packed_sequence_indices"):
        masking_utils.find_packed_sequence_indices = lambda *_, **__: None  # no row holds several sequences

    def attention(
        module, query, key, value, attention_mask=None, scaling=None, is_causal=None, position_bias=None, **_
    ):
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        causal = bool(causal) and query.shape[2] > 1 and attention_mask is None
        result = fused(torch, recorder, values, query, key, value, attention_mask, is_causal=causal, bias=position_bias)
        return result.transpose(1, 2).contiguous(), None

    ALL_ATTENTION_FUNCTIONS.register("mfu", attention)
    masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register("mfu", mask)


KEPT = []  # keeps masks alive, so that no other mask gets their storage
