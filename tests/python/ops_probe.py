"""Asks the test-only program of src/ops many questions in one run. torch's schemas put the arguments into place."""

import probe
import pytest
import torch

# The table of operators is made for the torch that ./test installs; Debian's own torch is older.
TABLE = (2, 13)


def find_probe():
    return probe.find("ops")


def ask(requests):
    return probe.ask("ops", requests)


def schema_of(name):
    """The schema of aten::mm, or of aten::mm.out."""
    base, _, overload = name.partition(".")
    space, _, local = base.partition("::")
    try:
        packet = getattr(getattr(torch.ops, space), local)
        overloads = packet.overloads()
        chosen = overload or ("default" if "default" in overloads else overloads[0])
        return getattr(packet, chosen)._schema
    except AttributeError:
        if not as_new_as_the_table():
            pytest.skip(f"a torch that has {name} is not at hand")
        raise


def as_new_as_the_table():
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= TABLE


class T:
    """A tensor of which only sizes and type count. It has values if an operator reads lengths from it."""

    def __init__(self, *sizes, dtype=torch.float32, values=None):
        self.sizes, self.dtype, self.values = list(sizes), dtype, values


def encode(value):
    if isinstance(value, torch.Tensor):
        value = T(*value.shape, dtype=value.dtype)
    if isinstance(value, T):
        encoded = {"tensor": [int(s) for s in value.sizes], "type": str(value.dtype)}
        return encoded | ({"values": value.values} if value.values is not None else {})
    if isinstance(value, torch.dtype):
        return {"torch.float16": 5, "torch.float32": 6, "torch.float64": 7, "torch.bfloat16": 15}.get(str(value), 6)
    if isinstance(value, (list, tuple)):
        if any(isinstance(v, (T, torch.Tensor)) for v in value):
            return {"tensors": len(value)}
        if all(isinstance(v, (int, bool)) for v in value):
            return {"list": [int(v) for v in value]}
        return {"unknown": 1}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return {"unknown": 1}


def request(name, positional=(), result=None, **named):
    """Arguments in the schema's order with defaults filled in, as a boxed call has them. The dispatcher and the
    profiler see the same."""
    arguments = []
    for i, argument in enumerate(schema_of(name).arguments):
        if i < len(positional):
            value = positional[i]
        elif argument.name in named:
            value = named.pop(argument.name)
        elif argument.has_default_value():
            value = argument.default_value
        else:
            value = None
        arguments.append(encode(value))
    assert not named, f"{name} has no {list(named)}"
    made = {"operator": name, "arguments": arguments}
    return made | ({"result": encode(result)} if result is not None else {})
