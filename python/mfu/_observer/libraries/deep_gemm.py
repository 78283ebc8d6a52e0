"""DeepGEMM 1.0 to 2.8: functions of the package `deep_gemm`, most of them from its pybind module.

The signatures are from deepseek-ai/DeepGEMM: deep_gemm/__init__.py (2.8), csrc/apis/gemm.hpp, einsum.hpp,
attention.hpp, and for version 1 deep_gemm/jit_kernels/m_grouped_gemm.py and wgrad_gemm.py. Every GEMM takes
(a, b, d, …), in version 1 (lhs, rhs, out, …). An fp8 or fp4 operand is a pair of numbers and scales, and d is the
result. NT, NN, TN and TT are the memory layouts of a and b, on which the sizes do not depend.
"""

from .formulas import product, shape_of, type_of, wider
from .lengths import by_values
from .wrapping import Aside, Like, Work

PACKED = ("torch.int8", "torch.uint8", "torch.float4_e2m1fn_x2")  # two 4-bit numbers per element


def operand(value):
    return value[0] if isinstance(value, (tuple, list)) else value


def _is_packed(value):
    return isinstance(value, (tuple, list)) and str(operand(value).dtype) in PACKED


def _type(a, b):
    names = ["fp4" if _is_packed(value) else type_of(operand(value)) for value in (a, b)]
    return "fp4" if names == ["fp4", "fp4"] else next(name for name in names if name != "fp4")


def _inner(value, rows):
    """The inner dimension of an operand with so many rows, in any memory layout."""
    elements = product(shape_of(operand(value))) * (2 if _is_packed(value) else 1)
    if rows and elements % rows:
        raise Aside("an operand does not fit the result")
    return elements // rows if rows else 0


def _taken(arguments):
    names = (("a", "lhs"), ("b", "rhs"), ("d", "out"))
    found = [arguments.get(place, either) for place, (either, _) in enumerate(names)]
    found = [arguments.need(None, names[i][1]) if each is None else each for i, each in enumerate(found)]
    return found


def dense(arguments, result):
    a, b, d = _taken(arguments)
    m, n = shape_of(d)[-2:]
    return Work(2 * m * n * _inner(a, m), _type(a, b), operand(a), weight=operand(b))


def contiguous(arguments, result):
    """a [M, k], b [groups, n, k], d [M, n], m_indices [M]: the group of each row, negative where a row is padding."""
    a, b, d = _taken(arguments)
    rows, n = shape_of(d)
    indices = arguments.get(3, "m_indices")
    indices = arguments.get(None, "grouped_layout") if indices is None else indices
    k, like = _inner(a, rows), Like(operand(a), _type(a, b))
    if indices is None:
        raise Aside("no m_indices")
    if shape_of(indices) != (rows,) or arguments.get(None, "use_psum_layout"):
        raise Aside("ends of groups: what lies between them is not known")
    return by_values((indices,), lambda groups: Work(2 * sum(group >= 0 for group in groups) * n * k, like.type, like))


def masked(arguments, result):
    """a [groups, M, k], b [groups, n, k], d [groups, M, n], masked_m [groups]: rows in use of each group."""
    a, b, d = _taken(arguments)
    groups, rows, n = shape_of(d)
    used = arguments.tensor(3, "masked_m")
    k, like = _inner(a, groups * rows), Like(operand(a), _type(a, b))
    return by_values((used,), lambda counts: Work(2 * sum(counts) * n * k, like.type, like))


def by_inner(arguments, result):
    """d [groups, m, n]: the inner dimension is divided into groups, and all of it is multiplied."""
    a, b, d = _taken(arguments)
    _, m, n = shape_of(d)
    sizes = next((arguments.get(3, name) for name in ("ks", "ks_cpu", "batch_sizes") if arguments.get(3, name)), None)
    if not isinstance(sizes, (list, tuple)):
        raise Aside("the sizes of its groups are no list")
    return Work(2 * m * n * sum(int(size) for size in sizes), _type(a, b), operand(a))


def skipping(arguments, result):
    """fp8_gemm_nt_skip_head_mid(a [m, k], b [n, k], d, head_splits): some columns of the result are not written."""
    a, b = operand(arguments.need(0, "a")), operand(arguments.need(1, "b"))
    m, k = shape_of(a)
    return Work(2 * m * shape_of(b)[0] * k, type_of(a), a, weight=b)


def einsum(arguments, result):
    """(expr, a, b, d, …): two operands, every letter a size."""
    expression, a, b = arguments.need(0, "expr"), arguments.need(1, "a"), arguments.need(2, "b")
    sizes = {}
    for letters, value in zip(expression.replace(" ", "").split("->")[0].split(","), (a, b)):
        for letter, size in zip(letters, shape_of(operand(value))):
            sizes[letter] = size
    return Work(2 * product(sizes.values()), wider(operand(a), operand(b)), operand(a))


def logits(arguments, result):
    """(q [tokens, heads, width], (kv [keys, width], scales), weights, starts, ends): each token uses the keys from its
    start to its end."""
    given = arguments.need(0, "q")
    q = operand(given)
    starts, ends = arguments.tensor(3, "cu_seq_len_k_start"), arguments.tensor(4, "cu_seq_len_k_end")
    _, heads, width = shape_of(q)
    width *= 2 if _is_packed(given) else 1
    like = Like(q, "fp4" if _is_packed(given) else type_of(q))
    return by_values(
        (starts, ends),
        lambda first, last: Work(
            2 * heads * width * sum(max(0, end - start) for start, end in zip(first, last)), like.type, like
        ),
    )


def formula_of(name):
    if name in ("einsum", "fp8_einsum", "bf16_einsum"):
        return einsum
    if name in ("fp8_mqa_logits", "fp8_fp4_mqa_logits"):
        return logits
    if name == "fp8_gemm_nt_skip_head_mid":
        return skipping
    if "gemm" not in name or "skip_head" in name or "prenorm" in name or "nvfp4" in name or "mega" in name:
        return None
    if name.startswith("k_grouped"):
        return by_inner
    if "grouped" in name:
        return masked if "masked" in name else contiguous
    return dense


def install(module, book):
    if not book.reads(("deep_gemm", "deep-gemm"), (1, 0), (2, 8)):
        return
    for name in dir(module):
        function = getattr(module, name)
        if name.startswith(("_", "get_", "set_", "transform_")) or not callable(function) or isinstance(function, type):
            continue
        formula = formula_of(name)
        if formula is not None:
            book.wrap(module, name, formula)
        elif any(word in name for word in ("gemm", "mega_", "mqa_logits", "syrk", "symm")):
            book.named(module, name)
