"""`mfu.formula("lib::op", "2*m*n*k", where={"m": "a0.shape[0]", …})`: what an operator costs that mfu does not know."""

from typing import Mapping, Optional

from ._errors import InvalidArgument
from ._load import observer


def formula(
    name: str,
    flop: str,
    where: Optional[Mapping[str, str]] = None,
    dtype: Optional[str] = None,
    kind: str = "operator",
) -> None:
    """From now on calls of the operator `name` count `flop`, and what they call counts no more.

    flop    an expression of whole numbers: + - * / // % ( ), min(a, b), max(a, b), cdiv(a, b), and names of `where`
    where   what the names mean: "a0.shape[1]" of the first argument, "a2.numel", "a1.dim", "a3" where it is an integer,
            "result.shape[0]" of the first result
    dtype   "bf16", … ; without it that of the first tensor
    kind    "operator" of torch's dispatcher, or "triton" with the name of a kernel

    Raises InvalidArgument where the expression is wrong, with the place.
    """
    if kind not in ("operator", "triton"):
        raise InvalidArgument(f"kind is operator or triton, not {kind!r}")
    full = f"triton::{name}" if kind == "triton" else name
    glue = observer()
    glue.library()  # loaded: an expression is looked at here, not when it is too late
    import importlib

    part = importlib.import_module(glue.__name__ + ".formulas")
    part.begin(glue.library())
    problem = part.add(full, flop, where, dtype)
    if problem:
        raise InvalidArgument(problem)
