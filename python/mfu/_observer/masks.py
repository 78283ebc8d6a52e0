"""Attention masks inside compiled graphs: what is known of them when the graph is compiled.

A mask made of sizes alone (causal, banded, blocks) is computed here once, on the CPU. One that is made of the graph's
inputs (padding) has no values yet: its attention is counted over the full rectangle, and a note says so.
"""

MASKED = -1e4  # what is added in place of minus infinity lies below
MOST = 1 << 26  # elements
NOTE = b"the values of an attention mask were not at hand: its attention is counted over the full rectangle"

_forward = {}  # shares of the last forward graph by the mask's name: its backward gets the mask as an input


def mask_of(target, args, kwargs):
    """The node that an attention takes its mask from; None without one."""
    for index, argument in enumerate(target._schema.arguments):
        if argument.name in ("attn_mask", "attn_bias"):
            found = args[index] if index < len(args) else kwargs.get(argument.name)
            return found if hasattr(found, "meta") else None
    return None


def share_of(mask, module, is_backward, library):
    """(attended, all) elements of a mask, or None where only the inputs tell."""
    if mask.name not in _forward or not is_backward:
        try:
            _forward[mask.name] = _counted(mask, module, library)
        except Exception:  # noqa: BLE001: made of inputs or of symbols
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
