"""What the library cannot see of a pass: that a custom autograd Function runs it, which model it is of, and whether
that is in training mode."""

import functools
import itertools
import sys
import weakref

from . import binding as types
from . import imports, opaque, tripwire
from .boundaries import skip_in_dynamo

_models = {}  # the library's number: a weak reference to the outermost module
_names = {}  # the library's number: its class
_THIS_PASS = 0xFFFF  # asked of a pass that no weight tells: whether a module runs it
_kept = []  # callbacks live as long as the library may call them


def install_functions(module, library):
    """torch.autograd.function: the forward of a custom Function runs without grad, and is kept for the backward all the
    same."""
    function = module.Function
    apply = function.__dict__["apply"].__func__
    enter = library.function

    @functools.wraps(apply)
    def marked(cls, *args, **kwargs):
        seen, plain = _begin_look(library) if tripwire.wants_functions() else (None, False)
        enter(1)
        try:
            result = apply(cls, *args, **kwargs)
        except BaseException:
            if seen is not None:
                seen.leave()
            raise
        finally:
            enter(-1)
        if seen is not None or plain:
            try:
                if seen is not None:
                    opaque.end(seen, cls, result, args)
                tripwire.applied(result, plain)
            except Exception:  # noqa: BLE001: never into the program
                pass
        return result

    skip_in_dynamo(marked)
    function.apply = classmethod(marked)


def _begin_look(library):
    """(what is seen of a Function, whether what it keeps may be asked for)"""
    try:
        return opaque.begin(library), tripwire.keeps_plainly()
    except Exception:  # noqa: BLE001: never into the program
        return None, False


def _generating(kind, part):
    """The module whose generate() runs a part of it by itself, as it does an encoder."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_locals.get("self") if frame.f_code.co_name == "generate" else None
        if isinstance(module, kind) and any(each is part for each in module.modules()):
            return module
        frame = frame.f_back
    return part


def _outermost(kind):
    """The outermost module whose forward is running in this thread. What only wraps another one is looked through."""
    found, frame = None, sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in ("forward", "_call_impl", "__call__"):
            module = frame.f_locals.get("self")
            if isinstance(module, kind):
                found = module
        frame = frame.f_back
    for _ in range(8):
        inner = found.__dict__.get("_modules", {}) if found is not None else {}
        name = type(found).__name__
        if name == "OptimizedModule":
            found = inner.get("_orig_mod")
        elif name in ("DistributedDataParallel", "DataParallel") and inner.get("module") is not None:
            found = inner["module"]
        else:
            break
    return found


def _call_seen(codes):
    """1 where the outermost call of a module that runs in this thread was seen before, 2 where no module runs; else it
    is seen now.

    The mark is on the frame of torch's own function, which nobody else looks into, and goes with it."""
    found, frame = None, sys._getframe(1)
    while frame is not None:
        if frame.f_code in codes:
            found = frame
        frame = frame.f_back
    if found is None:
        return 2
    kept = found.f_locals
    if "__mfu_seen__" in kept:
        return 1
    kept["__mfu_seen__"] = True
    return 0


def _storages(module):
    """Those of its parameters. Under vmap or grad a parameter is wrapped, once for each transform."""
    from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor

    found = set()
    for each in module.parameters():
        while is_functorch_wrapped_tensor(each):
            each = get_unwrapped(each)
        found.add(each.untyped_storage()._cdata)
    return found


def _mode(module):
    """1 in training mode, and 2 more where it has parameters and none of them is trained."""
    parameters = list(itertools.islice(module.parameters(), 1))
    frozen = bool(parameters) and not any(each.requires_grad for each in module.parameters())
    return int(module.training) + 2 * frozen


def install_modules(module, library):
    """torch.nn.modules.module: names of models, and their mode."""
    kind = module.Module
    calls = (getattr(kind, name, None) for name in ("_wrapped_call_impl", "_call_impl"))
    codes = frozenset(call.__code__ for call in calls if hasattr(call, "__code__"))

    def seen(number):
        try:
            imports.look(whole=True)
            found = _outermost(kind)
            if found is not None:
                if number == _THIS_PASS:
                    library.name_model(number, b"", _mode(found))
                else:
                    _name(library, number, _generating(kind, found))
            _call_seen(codes)
        except Exception:  # noqa: BLE001: a model without a name is counted all the same
            pass

    def owns(number, table):
        try:
            found = _outermost(kind)
            if number == _THIS_PASS:
                return int(found is not None and table in _storages(found))
            known = _models.get(number)
            same = found is None or (known is not None and known() is found)
            return int(same or any(each.untyped_storage()._cdata == table for each in found.parameters()))
        except Exception:  # noqa: BLE001: then nothing is told apart
            return 1

    def same():
        try:
            return _call_seen(codes)
        except Exception:  # noqa: BLE001: then each is a pass of its own
            return 0

    _kept.extend((types.MODEL_SEEN(seen), types.OWNER_ASKED(owns), types.SAME_CALL(same)))
    library.models(_kept[-3])
    library.owners(_kept[-2])
    library.calls(_kept[-1])
    import atexit

    atexit.register(library.models, types.MODEL_SEEN(0))
    atexit.register(library.owners, types.OWNER_ASKED(0))
    atexit.register(library.calls, types.SAME_CALL(0))
    atexit.register(library.last_step)
    train, depth = kind.train, [0]

    @functools.wraps(train)
    def told(self, mode=True):
        depth[0] += 1
        try:
            return train(self, mode)
        finally:
            depth[0] -= 1
            if depth[0] == 0 and _models:
                _tell_modes(library)

    skip_in_dynamo(told)
    kind.train = told


def _name(library, number, found):
    name, known = type(found).__name__, _models.get(number)
    same = known is not None and known() is found  # its weight is another tensor now, as under autocast
    if name == "Embedding":  # looked up by itself: the model that it is part of may come
        return library.name_model(number, name.encode(), _mode(found) | 8)
    if _names.get(number, name) != name:  # in the place of a model of another class, which is gone
        number = library.split_model(number)
    for other, reference in list(_models.items()):
        if other != number and reference() is found:
            library.join_models(number, other)
            break
    _models[number], _names[number] = weakref.ref(found), name
    library.name_model(number, name.encode(), _mode(found) + 4 * same)


def _tell_modes(library):
    for number, reference in list(_models.items()):
        found = reference()
        if found is not None:
            library.name_model(number, None, _mode(found))
