"""Triton kernels of the program and of libraries (Liger, FLA), which are launched past the dispatcher.

`JITFunction.run` (triton/runtime/jit.py) and `InterpretedFunction.run` (triton/runtime/interpreter.py) launch a kernel.
If it has a formula (`triton::NAME`), it is counted. If it has none and its source multiplies (`tl.dot`), it is named
with its grid. If its source does not multiply, it is listed with 0 FLOP. What the autotuner tries is not counted.
Inductor launches its kernels in another way; they belong to a compiled graph, which is counted.
"""

import ctypes
import functools
import inspect
import re
import sys

from .. import binding as types
from .. import formulas
from .formulas import type_of
from .wrapping import Work, _Counter, is_fake, version_of

DOT = re.compile(r"\bdot(_scaled)?\s*\(")
_multiplies = {}  # by function: whether it, or a function that it calls, has a dot
_trials = [0]  # above 0 while the autotuner works


def multiplies(kernel, depth=4):
    """Whether a kernel's source multiplies matrices. True if the source is not available."""
    function = getattr(kernel, "fn", kernel)
    found = _multiplies.get(function)
    if found is None:
        _multiplies[function] = False  # a function may call itself
        try:
            source = getattr(kernel, "src", None) or inspect.getsource(function)
            found = bool(DOT.search(source))
            if not found and depth:
                space = getattr(function, "__globals__", {})
                names = set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", source))
                inner = [space[name] for name in names if hasattr(space.get(name), "fn")]
                found = any(multiplies(each, depth - 1) for each in inner)
        except Exception:  # noqa: BLE001
            found = True
        _multiplies[function] = found
    return found


def shown(grid, args, kwargs):
    if callable(grid):
        try:
            grid = grid(kwargs)
        except Exception:  # it needs what only the compiler knows
            return "not known"
    sizes = grid if isinstance(grid, (tuple, list)) else (grid,)
    return " × ".join(str(size) for size in sizes)


def described(args):
    """Arguments as the library's formulas take them, and the objects that must live as long."""
    kept, given = [], (types.Argument * max(len(args), 1))()
    for place, value in zip(given, args):
        shape = getattr(value, "shape", None)
        if shape is not None and hasattr(value, "dtype"):
            numbers = (ctypes.c_int64 * max(len(shape), 1))(*[int(size) for size in shape])
            place.kind, place.type, place.integers, place.integers_count = (
                1,
                str(value.dtype).encode(),
                numbers,
                len(shape),
            )
        elif isinstance(value, bool):
            numbers = (ctypes.c_int64 * 1)(int(value))
            place.kind, place.integers, place.integers_count = 5, numbers, 1
        elif isinstance(value, int):
            numbers = (ctypes.c_int64 * 1)(value)
            place.kind, place.integers, place.integers_count = 3, numbers, 1
        else:
            numbers = None
            place.kind, place.number = (4, value) if isinstance(value, float) else (0 if value is None else 6, 0.0)
        kept.append(numbers)
    return given, kept


def ordered(kernel, args, kwargs):
    """All arguments, in the order of the kernel's parameters."""
    try:
        names = list(inspect.signature(getattr(kernel, "fn", kernel)).parameters)
    except (TypeError, ValueError):
        return list(args)
    return list(args) + [kwargs[name] for name in names[len(args) :] if name in kwargs]


def by_function(library, name, function, values, like):
    """For a kernel whose formula is a function, which gets the kernel's arguments in the order of its parameters."""
    try:
        given = [
            formulas.Tensor(v.shape, type_of(v)) if hasattr(v, "dtype") and hasattr(v, "shape") else v for v in values
        ]
        work = Work(formulas.checked(function(*given), name), type_of(like), like)
    except Exception as error:  # the user's function may raise anything
        formulas.failed(name, error)
        return library.add_uncounted(name.encode(), b"its formula could not say what the call cost")
    _Counter(library, name).count(work)


def launched(book, kernel, args, kwargs, grid):
    library = book.library
    name = f"triton::{getattr(getattr(kernel, 'fn', kernel), '__name__', 'kernel')}"
    values = ordered(kernel, args, kwargs)
    like = next((each for each in values if hasattr(each, "device") and hasattr(each, "dtype")), None)
    if like is not None and is_fake(like):
        return
    book.tell(version_of("triton"), "counted", "")
    own = formulas.function_of(name)
    if own is not None:
        return by_function(library, name, own, values, like)
    given, kept = described(values)
    cost = types.Cost()
    if library.cost_of(name.encode(), given, len(values), cost) == 0:
        kind = cost.type.decode()
        work = Work(cost.hardware_flop, kind if kind != "unknown" else type_of(like), like, model=cost.model_flop)
        _Counter(library, name).count(work)
    elif multiplies(kernel):
        reason = (
            cost.reason.decode()
            if cost.reason and b"formula of" in cost.reason
            else "a Triton kernel without a formula"
        )
        library.add_uncounted(name.encode(), f"{reason}, grid {shown(grid, values, kwargs)}"[:95].encode())
    else:
        library.add(name.encode(), b"unknown", 0, 0, 0)


def watch(book, kind):
    """Watches the launches of one class of kernels."""
    run = vars(kind).get("run") if isinstance(kind, type) else None
    if run is None or getattr(run, "_mfu_wrapped", False):
        return
    counting = book.library.counting

    @functools.wraps(run)
    def watched(self, *args, **kwargs):
        result = run(self, *args, **kwargs)
        if not kwargs.get("warmup", False) and not _trials[0] and counting():
            try:
                rest = {name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}
                launched(book, self, args, rest, kwargs.get("grid"))
            except Exception as error:  # must not reach the program
                book.unknown(f"a launch was not understood: {type(error).__name__}: {error}")
        return result

    watched._mfu_wrapped = True
    kind.run = watched


def quiet(kind, library):
    """The trials of the autotuner are not work of the program."""
    bench = vars(kind).get("_bench") if isinstance(kind, type) else None
    if bench is None or getattr(bench, "_mfu_wrapped", False):
        return

    @functools.wraps(bench)
    def watched(*args, **kwargs):
        _trials[0] += 1
        library.pause(1)
        try:
            return bench(*args, **kwargs)
        finally:
            library.pause(-1)
            _trials[0] -= 1

    watched._mfu_wrapped = True
    kind._bench = watched


def install(module, book):
    for name, each in (("triton.runtime.jit", "JITFunction"), ("triton.runtime.interpreter", "InterpretedFunction")):
        watch(book, getattr(sys.modules.get(name), each, None))
    quiet(getattr(sys.modules.get("triton.runtime.autotuner"), "Autotuner", None), book.library)
