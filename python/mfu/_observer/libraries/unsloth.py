"""Unsloth: `fast_gemv` multiplies a 4-bit weight by one row through ctypes (unsloth/kernels/utils.py of
unslothai/unsloth: `fast_gemv(X, W, quant_state, out=None)`, X [1, 1, k], the weight [quant_state.shape] = [n, k];
without a quant_state it is torch.matmul).

Everything else in it calls torch.matmul and addmm_, which the dispatcher sees. Its versions are dates.
"""

from .formulas import product, shape_of, type_of
from .wrapping import Aside, Work


def gemv(arguments, result):
    """(X [1, 1, k], W packed, quant_state, out=None) → [1, 1, n]"""
    x = arguments.tensor(0, "X")
    return Work(2 * product(shape_of(result)) * shape_of(x)[-1], type_of(x), x)


def install(module, book):
    if not book.reads(("unsloth",), (2023, 0), (2026, 12)):
        return
    if not book.wrap(module, "fast_gemv", gemv):
        raise Aside("there is no fast_gemv")
