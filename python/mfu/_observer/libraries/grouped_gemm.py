"""grouped_gemm 0.1 to 1.1: its pybind module `grouped_gemm_backend` (MegaBlocks and Megatron's experts).

The signatures are from grouped_gemm/backend.py and csrc/grouped_gemm.cu of tgale96/grouped_gemm, and from
grouped_gemm/backend.py of yanring/grouped_gemm, a copy of the fork that Megatron installs. Both have
gmm(a, b, c, batch_sizes, trans_a, trans_b). batch_sizes says how many rows of `a` belong to each expert. Other forks
have more products (`gmmfwd` and `gmmbwd` with lists of weights, `gmm_with_arguments`, `ck_gmm`), which are named.
"""

import re

from .formulas import matmul, shape_of, wider
from .lengths import by_values
from .wrapping import Aside, Like, Work


OTHERS = re.compile(r"gmm|gemm|matmul")


def gmm(arguments, result):
    """a [tokens, k] × b [experts, k, n] (trans_b: [experts, n, k]); trans_a: a [tokens, m] and b [tokens, n] by
    expert."""
    a, b, sizes = arguments.tensor(0, "a"), arguments.tensor(1, "b"), arguments.tensor(3, "batch_sizes")
    shape_a, shape_b = shape_of(a), shape_of(b)
    trans_a, trans_b = bool(arguments.get(4, "trans_a", False)), bool(arguments.get(5, "trans_b", False))
    if len(shape_a) != 2 or len(shape_b) != (2 if trans_a else 3):
        raise Aside("its operands have other dimensions")
    k, n = shape_a[1], shape_b[1] if trans_a or trans_b else shape_b[2]
    like = Like(a, wider(a, b))
    return by_values((sizes,), lambda tokens: Work(matmul(sum(tokens), k, n), like.type, like))


def install(module, book):
    if not book.reads(("grouped_gemm", "grouped-gemm", "nv-grouped-gemm"), (0, 0), (1, 1)):
        return
    if not book.wrap(module, "gmm", gmm):
        raise Aside("there is no gmm")
    book.name_rest(module, OTHERS)
