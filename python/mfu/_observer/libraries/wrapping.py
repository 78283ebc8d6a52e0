"""How a function of a library is wrapped: it runs as it always did, then its FLOPs are counted from its arguments.

A wrapper never changes what the function does, returns or raises. A fault of ours is noted in the summary, and the
call is listed as uncounted.
"""

import functools
import gc
import re
import sys
import types

from .. import opaque
from ..boundaries import skip_in_dynamo

_told = {}  # library: what was said of it last


class Aside(Exception):
    """The arguments are not those that were read: the call is not counted, and the library's coverage is unknown."""


class Work:
    """What one call came to."""

    __slots__ = ("hardware", "model", "type", "leading", "device", "weight")

    def __init__(self, flop, type_name, like, *, model=None, weight=None, leading=None):
        """`like`: a tensor on the device it ran on; `weight`: the operand that a model multiplies by."""
        self.hardware, self.model, self.type = flop, flop if model is None else model, type_name
        shape = getattr(like, "shape", ())
        self.leading = leading if leading is not None else (int(shape[0]) if len(shape) else 0)
        self.device, self.weight = like, weight


class Like:
    """What a count needs of a tensor, without holding its memory."""

    __slots__ = ("shape", "device", "type")

    def __init__(self, tensor, type_name):
        self.shape, self.device, self.type = tuple(tensor.shape), tensor.device, type_name


class Later:
    """Work that depends on numbers in device memory; lengths.py reads them without waiting."""

    __slots__ = ("tensors", "work")

    def __init__(self, tensors, work):
        self.tensors, self.work = tensors, work


def version_of(*names, installed=True):
    """Of the first package that says one: `__version__`, else what was installed."""
    for name in names:
        version = getattr(sys.modules.get(name.replace("-", "_")), "__version__", None)
        if isinstance(version, str) and version:
            return version
    if not installed:
        return ""
    try:
        from importlib import metadata
    except ImportError:
        return ""
    for name in names:
        try:
            return metadata.version(name)
        except Exception:  # noqa: BLE001: not installed under that name
            continue
    return ""


def numbers_of(version):
    found = re.match(r"\s*v?(\d+)(?:\.(\d+))?", version or "")
    return (int(found.group(1)), int(found.group(2) or 0)) if found else None


class Book:
    """What is said of one library, and how its functions are wrapped."""

    def __init__(self, library, name, module=None):
        self.library, self.name, self.module, self.version = library, name, module, ""
        self.asked, self.aside, self.wrapped = None, False, []

    def reads(self, packages, first, last):
        """Whether the version that one of these packages says is one of those that were read, `first` to `last` (major,
        minor). Else it is left alone.

        An extension without a version is taken for what was read: its arguments are looked at in each call.
        """
        self.asked = packages, first, last
        self.version = version_of(*packages) or version_of(getattr(self.module, "__name__", ""), installed=False)
        numbers = numbers_of(self.version)
        if not self.version or numbers is not None and first <= numbers <= last:
            self.tell(self.version, "counted", "")
            return True
        span = f"{first[0]}.{first[1]} to {last[0]}.{last[1]}"
        self.unknown(f"mfu knows {span}: another version may call its matmuls in another way")
        return False

    def version_told(self):
        """Its package has come: what was wrapped steps aside if the version is one that was not read."""
        if self.asked is not None and not self.reads(*self.asked):
            self.aside = True

    def tell(self, version, state, why):
        """`state`: counted, or unknown: nobody can say what it computed."""
        if state == "counted" and _told.get(self.name, ("",))[0] == "unknown":
            return  # one part of it was not understood
        if _told.get(self.name) == (state, why):
            return
        _told[self.name] = (state, why)
        text = "\t".join(" ".join(str(part).split()) for part in (self.name, version, state, why))
        self.library.fact(b"library", text.encode())

    def unknown(self, why):
        self.tell(self.version, "unknown", why)

    def wrap(self, owner, name, formula, operator=None):
        """Counts calls of owner.name by formula(arguments, result) → Work, Later, or several; None: nothing to
        count."""
        original = getattr(owner, name, None)
        if original is None or getattr(original, "_mfu_wrapped", False):
            return original is not None
        wrapped = self.watched(original, formula, operator or f"{self.name}::{name}")
        self._put(owner, name, original, wrapped)
        return True

    def named(self, owner, name, reason="no formula yet", operator=None):
        """Calls of owner.name are listed as uncounted."""
        original = getattr(owner, name, None)
        if original is None or not callable(original) or getattr(original, "_mfu_wrapped", False):
            return
        said, why = (operator or f"{self.name}::{name}").encode(), reason.encode()
        uncounted = self.library.add_uncounted

        def formula(arguments, result):
            uncounted(said, why)

        self._put(
            owner, name, original, self.watched(original, formula, operator or f"{self.name}::{name}", cover=False)
        )

    def _put(self, owner, name, original, wrapped):
        setattr(owner, name, wrapped)
        # Who took the function from its module before it was watched has it still.
        if isinstance(owner, type(sys)):
            for module in list(sys.modules.values()):
                space = getattr(module, "__dict__", None)
                if isinstance(space, dict) and space.get(name) is original:
                    space[name] = wrapped

    def taken(self):
        """Whether anybody holds a function that was wrapped, other than by a name of a module: that is put right."""
        by_original = {id(each.__wrapped__): each for each in self.wrapped}
        ours = tuple(each.__wrapped__ for each in self.wrapped)  # it becomes the call's own arguments, and a referrer
        mine = {id(each) for one in self.wrapped for each in (one, one.__dict__, *(one.__closure__ or ()))} | {id(ours)}
        spaces = {id(getattr(module, "__dict__", None)) for module in list(sys.modules.values())}
        held = False
        for holder in gc.get_referrers(*ours) if ours else ():
            if id(holder) in spaces:
                for name, value in list(holder.items()):
                    holder[name] = by_original.get(id(value), value)
            elif id(holder) not in mine and not isinstance(holder, types.FrameType):
                held = True
        return held

    def watched(self, original, formula, operator, cover=True):
        library = self.library
        counting, pause = library.counting, library.pause
        count = _Counter(library, operator).count
        is_compiling = _is_compiling()

        def counted(args, kwargs, result):
            try:
                done = formula(Arguments(args, kwargs), result)
                if done is not None:
                    for work in done if isinstance(done, (list, tuple)) else (done,):
                        count(work)
            except Aside as error:
                self.unknown(f"{operator} was called in a way that mfu does not know: {error}")
                library.add_uncounted(operator.encode(), b"called in a way that mfu does not know")
            except Exception as error:  # noqa: BLE001: never into the program
                self.unknown(f"{operator}: {type(error).__name__}: {error}")
                library.add_uncounted(operator.encode(), b"its arguments were not understood")

        def wrapped(*args, **kwargs):
            # A tracer goes on as if this were the function itself; what it cannot trace runs below, after its graph.
            if is_compiling() or not counting() or self.aside:
                return original(*args, **kwargs)
            if cover:
                pause(1)
            try:
                result = original(*args, **kwargs)
            finally:
                if cover:
                    pause(-1)
            opaque.wrapped_calls[0] += 1
            counted(args, kwargs, result)
            return result

        skip_in_dynamo(counted)
        try:
            functools.update_wrapper(wrapped, original)
        except Exception:  # noqa: BLE001: a builtin may have no name
            pass
        wrapped.__wrapped__, wrapped._mfu_wrapped = original, True
        self.wrapped.append(wrapped)
        return wrapped


def _is_compiling():
    torch = sys.modules.get("torch")
    found = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return found if found is not None else lambda: False


class _Counter:
    """Hands work to the library under one operator's name."""

    def __init__(self, library, operator):
        self.library, self.operator, self.id, self.types = library, operator, None, {}

    def count(self, work):
        if isinstance(work, Later):
            from . import lengths

            lengths.read(self, work)
            return
        like = work.device
        if is_fake(like):
            return
        if self.id is None:
            self.id = self.library.operator_id(self.operator.encode())
        kind = self.types.get(work.type)
        if kind is None:
            kind = self.types[work.type] = self.library.type_id(work.type.encode())
        self.library.count(
            self.id, kind, work.hardware, work.model, work.leading, device_of(like), storage_of(work.weight)
        )


class Arguments:
    """Of one call, by place or by name."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args, kwargs):
        self.args, self.kwargs = args, kwargs

    def get(self, place, name, default=None):
        if place is not None and place < len(self.args):
            return self.args[place]
        return self.kwargs.get(name, default)

    def need(self, place, name):
        value = self.get(place, name)
        if value is None:
            raise Aside(f"no {name}")
        return value

    def named(self, function):
        """By the function's own names; Aside where they cannot be told."""
        import inspect

        try:
            bound = inspect.signature(function).bind(*self.args, **self.kwargs)
        except (TypeError, ValueError) as error:
            raise Aside(str(error)) from None
        bound.apply_defaults()
        return bound.arguments

    def tensor(self, place, name):
        value = self.need(place, name)
        if not hasattr(value, "shape") and not hasattr(value, "size"):
            raise Aside(f"{name} is no tensor")
        return value


_DEVICES = {"cpu": 0, "cuda": 1, "hip": 6, "xla": 9, "xpu": 12, "mps": 13, "hpu": 15, "mtia": 19}  # c10::DeviceType
_PRIVATE = 20  # a backend that named itself


def device_of(tensor):
    """As observer.h takes it, by c10::DeviceType; -1 where it is not known."""
    device = getattr(tensor, "device", None)
    for inner in () if device is not None else ("_data", "_rowwise_data", "_columnwise_data", "_transpose"):
        device = device or getattr(getattr(tensor, inner, None), "device", None)  # TransformerEngine's quantized ones
    if device is None:
        return -1
    kind = _DEVICES.get(device.type, _PRIVATE)
    index = device.index
    return kind << 8 | ((index if index is not None else -1) & 0xFF)


def storage_of(tensor):
    try:
        return tensor.untyped_storage()._cdata if tensor is not None else 0
    except Exception:  # noqa: BLE001: a tensor without storage
        return 0


def is_fake(tensor):
    """A tracer's tensor: nothing is computed."""
    kind = getattr(getattr(tensor, "device", None), "type", "")
    return kind == "meta" or type(tensor).__name__ in ("FakeTensor", "FunctionalTensor")
