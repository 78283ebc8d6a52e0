"""Wraps a function of a library: the function runs as before, then its FLOPs are counted from its arguments.

A wrapper never changes what the function does, returns or raises. If our own code fails, the summary has a note and the
call is listed as uncounted.
"""

import functools
import gc
import re
import sys
import types

from .. import binding as types_of_library
from .. import opaque
from ..boundaries import skip_in_dynamo

_told = {}  # library: what was last reported about it


class Aside(Exception):
    """Raised for arguments that we do not know. The call is not counted, and the library's coverage is unknown."""


class Work:
    """The work of one call."""

    __slots__ = ("hardware", "model", "type", "leading", "device", "weight")

    def __init__(self, flop, type_name, like, *, model=None, weight=None, leading=None):
        """`like`: a tensor on the device on which it ran; `weight`: the operand that is the model's weight."""
        self.hardware, self.model, self.type = flop, flop if model is None else model, type_name
        shape = getattr(like, "shape", ())
        self.leading = leading if leading is not None else (int(shape[0]) if len(shape) else 0)
        self.device, self.weight = like, weight


class Like:
    """What a count needs to know of a tensor. It does not keep the tensor's memory alive."""

    __slots__ = ("shape", "device", "type")

    def __init__(self, tensor, type_name):
        self.shape, self.device, self.type = tuple(tensor.shape), tensor.device, type_name


class Later:
    """Work that depends on numbers in device memory; lengths.py reads them without waiting."""

    __slots__ = ("tensors", "work")

    def __init__(self, tensors, work):
        self.tensors, self.work = tensors, work


def version_of(*names, installed=True):
    """The version of the first of these packages that has one: `__version__`, or else the installed version."""
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
    """Wraps the functions of one library and reports what is known about it."""

    def __init__(self, library, name, module=None):
        self.library, self.name, self.module, self.version = library, name, module, ""
        self.asked, self.aside, self.wrapped, self.owners = None, False, [], []

    def reads(self, packages, first, last):
        """Whether the version of one of these packages is between `first` and `last` (major, minor), for which the
        formulas were written. Otherwise the library is left alone.

        An extension without a version is assumed to fit, because the arguments are checked in each call.
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
        """Called when its package has been imported. If the formulas are not for its version, calls no longer count."""
        if self.asked is not None and not self.reads(*self.asked):
            self.aside = True
            self._take_back()

    def _take_back(self):
        """Puts the original functions back, under every name that holds a wrapper."""
        original = {id(each): each.__wrapped__ for each in self.wrapped}
        spaces = [getattr(module, "__dict__", None) for module in list(sys.modules.values())]
        for space in filter(lambda each: isinstance(each, dict), spaces):
            for name, value in list(space.items()):
                if id(value) in original:
                    space[name] = original[id(value)]
        for owner, name in self.owners:
            value = getattr(owner, name, None)
            if id(value) in original:
                setattr(owner, name, original[id(value)])

    def tell(self, version, state, why):
        """`state`: `counted`, or `unknown` if we cannot say what it computed."""
        if state == "counted" and _told.get(self.name, ("",))[0] == "unknown":
            return  # it stays unknown, because a part of it was not understood
        if _told.get(self.name) == (state, why, version):
            return
        _told[self.name] = (state, why, version)
        text = "\t".join(" ".join(str(part).split()) for part in (self.name, version, state, why))
        self.library.fact(b"library", text.encode())

    def unknown(self, why):
        self.tell(self.version, "unknown", why)

    def wrap(self, owner, name, formula, operator=None):
        """Counts calls of owner.name. formula(arguments, result) returns Work, Later, a list of them, or None if there
        is nothing to count."""
        original = getattr(owner, name, None)
        if original is None or getattr(original, "_mfu_wrapped", False):
            return original is not None
        wrapped = self.watched(original, formula, operator or f"{self.name}::{name}")
        self._put(owner, name, original, wrapped)
        return True

    def named(self, owner, name, reason="no formula yet", operator=None):
        """Lists calls of owner.name as uncounted."""
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

    def name_rest(self, owner, pattern, harmless=None, of=None):
        """Lists calls of owner's other functions whose names match `pattern` as uncounted, unless something was counted
        or listed inside. So newer functions of a library are not silently left out. `of`: where they are defined."""
        for name in dir(owner):
            if not pattern.search(name) or harmless is not None and harmless.search(name):
                continue
            original = getattr(owner, name, None)
            if original is None or isinstance(original, type) or not callable(original):
                continue
            if getattr(original, "_mfu_wrapped", False):
                continue
            if of is not None and not str(getattr(original, "__module__", "")).startswith(of):
                continue
            self._put(owner, name, original, self.alone(original, f"{self.name}::{name}"))

    def alone(self, original, operator):
        """The function, listed as uncounted at each call in which nothing was counted or listed."""
        calls, uncounted, said = opaque.wrapped_calls, self.library.add_uncounted, operator.encode()
        counting, is_compiling = self.library.counting, _is_compiling()
        thread = self.library.read_thread

        def seen():
            state = types_of_library.Thread()
            thread(state)
            return state.calls, calls[0]

        def wrapped(*args, **kwargs):
            if is_compiling() or not counting() or self.aside:
                return original(*args, **kwargs)
            before = seen()
            result = original(*args, **kwargs)
            if before == seen():
                calls[0] += 1
                uncounted(said, b"no formula yet")
            return result

        skip_in_dynamo(seen)
        return self._dressed(wrapped, original)

    def _dressed(self, wrapped, original):
        """The wrapper with the name and the text of what it wraps."""
        try:
            functools.update_wrapper(wrapped, original)
        except Exception:  # noqa: BLE001: a builtin may have no name
            pass
        wrapped.__wrapped__, wrapped._mfu_wrapped = original, True
        self.wrapped.append(wrapped)
        return wrapped

    def _put(self, owner, name, original, wrapped):
        setattr(owner, name, wrapped)
        self.owners.append((owner, name))
        # Code that took the function from its module before it was wrapped still has the original.
        if isinstance(owner, type(sys)):
            for module in list(sys.modules.values()):
                space = getattr(module, "__dict__", None)
                if isinstance(space, dict) and space.get(name) is original:
                    space[name] = wrapped

    def taken(self):
        """Whether anything still holds an original function. Names in modules are replaced by the wrapper and do not
        count."""
        by_original = {id(each.__wrapped__): each for each in self.wrapped}
        ours = tuple(each.__wrapped__ for each in self.wrapped)  # this tuple is one of the referrers
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
            # While it is traced, the wrapper acts like the function itself. What cannot be traced runs below, after the
            # graph.
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
        return self._dressed(wrapped, original)


def _is_compiling():
    torch = sys.modules.get("torch")
    found = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return found if found is not None else lambda: False


class _Counter:
    """Passes work to the observer's library under the name of one operator."""

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
    """The arguments of one call, by position or by name."""

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
        """The arguments by the names in the function's signature. Raises Aside if it has none."""
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
    """The device as observer.h expects it, by c10::DeviceType. -1 if it is not known."""
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
    """Whether it is a tensor of a tracer, with which nothing is computed."""
    kind = getattr(getattr(tensor, "device", None), "type", "")
    return kind == "meta" or type(tensor).__name__ in ("FakeTensor", "FunctionalTensor")
