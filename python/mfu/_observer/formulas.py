"""Formulas from users, as expressions or functions: from the file of `mfu run --formulas`, and from mfu.formula()."""

import atexit
import os

from . import binding as types

_waiting = []  # given before the library was loaded
_state = {"library": None, "call": None}
_functions = {}  # function by name
_failed = set()


class Tensor:
    """What a formula may know about a tensor: no values, and nothing that keeps its memory alive."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(int(size) for size in shape), dtype

    def numel(self):
        total = 1
        for size in self.shape:
            total *= size
        return total

    def dim(self):
        return len(self.shape)

    def size(self, dimension=None):
        return self.shape if dimension is None else self.shape[dimension]

    def __repr__(self):
        return f"Tensor(shape={self.shape}, dtype={self.dtype!r})"


def begin(library):
    """Called when the library is loaded. Adds what the launcher read from its file, and what the program gave before.
    """
    if _state["library"] is not None:
        return
    _state["library"] = library
    for record in filter(None, os.environ.get("MFU_FORMULAS", "").split("\x1e")):
        name, flop, kind, *where = record.split("\x1f")
        problem = library.formula(name.encode(), flop.encode(), "\n".join(where).encode(), kind.encode()).decode()
        if problem:  # only if the launcher, which checked it, is of another version
            library.fact(b"note", problem.encode())
    for each in _waiting:
        library.formula(*each)
    _waiting.clear()


def add(name, flop, where, dtype):
    """Returns what is wrong with the formula. Empty if nothing is, or if it will be checked once torch is observed."""
    if callable(flop):
        return _add_function(name, flop, dtype)
    lines = "\n".join(f"{key}={value}" for key, value in (where or {}).items())
    given = tuple(part.encode() for part in (name, flop, lines, dtype or ""))
    if _state["library"] is None:
        _waiting.append(given)
        return ""
    _functions.pop(name, None)
    return _state["library"].formula(*given).decode()


def _add_function(name, function, dtype):
    library = _state["library"]
    if _state["call"] is None:
        _state["call"] = types.FORMULA_CALL(_asked)
        # threads of torch may live longer than Python
        atexit.register(library.formula_by, b"", b"", types.FORMULA_CALL(0))
    problem = library.formula_by(name.encode(), (dtype or "").encode(), _state["call"]).decode()
    if not problem:
        _functions[name] = function
        _failed.discard(name)
    return problem


def _value(argument):
    numbers = [argument.integers[i] for i in range(argument.integers_count)] if argument.integers else []
    if argument.kind == 1:
        return Tensor(numbers, (argument.type or b"").decode())
    if argument.kind == 2:
        return numbers
    if argument.kind in (3, 5):
        return None if not numbers else bool(numbers[0]) if argument.kind == 5 else numbers[0]
    return argument.number if argument.kind == 4 else None


def _asked(name, arguments, count, result):
    """An operator's kernel calls this on its own thread. Nothing is raised into the kernel."""
    name = name.decode()
    try:
        given = [_value(arguments[i]) for i in range(count)]
        return checked(_functions[name](*given), name)
    except Exception as error:  # the user's function may raise anything
        failed(name, error)
        return -1


def checked(flop, name):
    if isinstance(flop, bool) or not isinstance(flop, int) or not 0 <= flop < 1 << 62:
        raise ValueError(f"a formula returns whole FLOPs from 0 on, not {flop!r}")
    return flop


def failed(name, error):
    """Reported once for each name."""
    if name not in _failed:
        _failed.add(name)
        text = f"the formula of {name} raised {type(error).__name__}: {error}"
        _state["library"].fact(b"note", " ".join(text.split())[:400].encode())


def function_of(name):
    return _functions.get(name)
