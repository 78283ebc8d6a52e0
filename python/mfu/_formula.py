"""`mfu.formula("lib::op", "2*m*n*k", where={"m": "a0.shape[0]", …})`: says what an operator costs that mfu does not
know."""

from typing import Any, Callable, Mapping, Optional, Union

from ._errors import InvalidArgument
from ._load import observer


def formula(
    name: str,
    flop: Union[str, Callable[..., Any]],
    where: Optional[Mapping[str, str]] = None,
    dtype: Optional[str] = None,
    kind: str = "operator",
) -> None:
    """From now on, calls of the operator `name` count `flop`, and what they call is not counted.

    flop    an expression of whole numbers with + - * / // % ( ), min(a, b), max(a, b), cdiv(a, b) and names of `where`;
        or a function that gets the arguments of a call by position and returns whole FLOPs. A tensor is passed as its
        shape and dtype (.shape, .dtype, .numel(), .dim(), .size()), and what a formula cannot know as None. The
        function is called after each call of the operator, on the same thread. If it raises, a note says so, and the
        call is listed as uncounted.
    where   what the names mean: "a0.shape[1]" of the first argument, "a2.numel", "a1.dim", "a3" if it is an integer,
        "result.shape[0]" of the first result
    dtype   "bf16", …; by default the type of the first tensor
    kind    "operator" of torch's dispatcher, or "triton" with the name of a kernel

    Raises InvalidArgument with the place if the expression is wrong.
    """
    if callable(flop) and where:
        raise InvalidArgument("`where` is for expressions: a function gets the arguments themselves")
    if not callable(flop) and not isinstance(flop, str):
        raise InvalidArgument(f"flop is an expression or a function, not {flop!r}")
    if kind not in ("operator", "triton"):
        raise InvalidArgument(f"kind is operator or triton, not {kind!r}")
    full = f"triton::{name}" if kind == "triton" else name
    glue = observer()
    glue.library()  # load it now, so that a wrong expression is found here and not later
    import importlib

    part = importlib.import_module(glue.__name__ + ".formulas")
    part.begin(glue.library())
    problem = part.add(full, flop, where, dtype)
    if problem:
        raise InvalidArgument(problem)
