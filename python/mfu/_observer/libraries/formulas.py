"""The arithmetic of matmuls and attention on plain integers, as in src/ops/formulas.h, and the types of tensors."""

from .wrapping import Aside

_TYPES = {
    "torch.float64": "fp64",
    "torch.float32": "fp32",
    "torch.float16": "fp16",
    "torch.bfloat16": "bf16",
    "torch.float8_e4m3fn": "fp8",
    "torch.float8_e5m2": "fp8",
    "torch.float8_e4m3fnuz": "fp8",
    "torch.float8_e5m2fnuz": "fp8",
    "torch.float4_e2m1fn_x2": "fp4",
    "torch.int8": "int8",
    "torch.uint8": "int8",
    "torch.int4": "int4",
}
_WIDTH = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp6", "fp4", "int4")


def type_of(tensor):
    """The type of a tensor's numbers. TransformerEngine's quantized tensors say the type that they stand for, but hold
    another one."""
    if getattr(tensor, "_fp4_dtype", None) is not None or "FP4" in type(tensor).__name__:
        return "fp4"
    if (
        getattr(tensor, "_fp8_dtype", None) is not None
        or "Float8" in type(tensor).__name__
        or "MXFP8" in type(tensor).__name__
    ):
        return "fp8"
    return _TYPES.get(str(getattr(tensor, "dtype", None)), "unknown")


def wider(*tensors):
    """The type in which operands of several types are multiplied: the widest one."""
    names = [type_of(tensor) for tensor in tensors]
    known = [name for name in names if name in _WIDTH]
    return min(known, key=_WIDTH.index) if known else "unknown"


def shape_of(tensor):
    shape = getattr(tensor, "shape", None)
    if shape is None:
        shape = tensor.size()
    return tuple(int(size) for size in shape)


def flattened(tensor):
    """Rows and columns of a tensor that is taken as a matrix: all dimensions but the last are rows."""
    shape = shape_of(tensor)
    if not shape:
        raise Aside("an operand without dimensions")
    return product(shape[:-1]), shape[-1]


def product(sizes):
    total = 1
    for size in sizes:
        total *= size
    return total


def matmul(m, k, n):
    return 2 * m * k * n


def pairs(queries, keys, causal=False, bottom_right=True, left=-1, right=-1):
    """Query i sees key j if i + shift − left <= j <= i + shift + right. The shift is keys − queries if the mask is
    aligned at the bottom right, otherwise 0."""
    if queries <= 0 or keys <= 0:
        return 0
    shift = keys - queries if bottom_right else 0
    if causal:
        right = 0
    upper = queries * keys if right is None or right < 0 else _clamped(queries, keys, shift + right + 1)
    lower = 0 if left is None or left < 0 else _clamped(queries, keys, shift - left)
    return upper - lower


def _clamped(queries, keys, offset):
    """Σ over i in [0, queries) of i + offset clamped to [0, keys]."""
    first = max(0, -offset)
    if first >= queries:
        return 0
    last = min(max(keys - offset, first), queries)
    return (last - first) * (2 * offset + first + last - 1) // 2 + (queries - last) * keys


def attention(seen, width_qk, width_v, backward=False):
    """(hardware, model) FLOPs of `seen` pairs over all heads. The backward computes the scores again."""
    if not backward:
        flop = 2 * seen * (width_qk + width_v)
        return flop, flop
    model = 4 * seen * (width_qk + width_v)
    return model + 2 * seen * width_qk, model
