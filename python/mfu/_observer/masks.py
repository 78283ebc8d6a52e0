"""Computes what is known of the attention masks inside a graph when it is compiled.

A mask that depends on sizes alone (causal, banded, blocks) is computed here once, on the CPU. A mask that depends on
the graph's inputs (padding) has no values yet, so its attention is counted over the full rectangle, and a note says so.
"""

MASKED = -1e4  # a number below this, added to a score, masks it
MOST = 1 << 26  # elements
NOTE = b"the values of an attention mask were not at hand: its attention is counted over the full rectangle"

_forward = {}  # masks of the last forward graph, by name, because the backward graph gets the mask as an input


def mask_of(target, args, kwargs):
    """The node that gives an attention its mask; None if it has no mask."""
    for index, argument in enumerate(target._schema.arguments):
        if argument.name in ("attn_mask", "attn_bias"):
            found = args[index] if index < len(args) else kwargs.get(argument.name)
            return found if hasattr(found, "meta") else None
    return None


def share_of(mask, module, is_backward, library):
    """(attended, all) elements of a mask; None if they depend on the graph's inputs."""
    if mask.name not in _forward or not is_backward:
        try:
            _forward[mask.name] = _counted(mask, module, library)
        except Exception:  # noqa: BLE001: it depends on inputs or on symbols
            _forward[mask.name] = None
    return _forward[mask.name]


def begin(is_backward):
    if not is_backward:
        _forward.clear()


def _counted(mask, module, library):
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    shape = [int(size) for size in mask.meta["val"].shape]
    elements = 1
    for size in shape:
        elements *= size
    if elements > MOST:
        return None
    library.pause(1)
    try:
        with unset_fake_temporarily():
            value = _constant(mask, module, {})
            attended = value if str(value.dtype) == "torch.bool" else value > MASKED
            return int(attended.sum()), int(attended.numel())
    finally:
        library.pause(-1)


def _constant(node, module, known):
    if node in known:
        return known[node]
    if node.op == "get_attr":
        value = getattr(module, node.target).detach().cpu()
    elif node.op == "call_function":
        import torch.fx

        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda each: _constant(each, module, known))
        if "device" in kwargs:
            kwargs = {**kwargs, "device": "cpu"}
        value = node.target(*args, **kwargs)
    else:
        raise ValueError("an input")
    known[node] = value
    return value
