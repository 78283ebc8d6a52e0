"""Tells the library what it cannot see of a pass: whether a custom autograd Function runs it, which model it belongs
to, and whether that model is in training mode."""

import functools
import itertools
import sys
import weakref

from . import binding as types
from . import imports, opaque, tripwire
from .boundaries import skip_in_dynamo

_models = {}  # by the library's number of a model: a weak reference to its outermost module
_names = {}  # by the library's number of a model: its class
_THIS_PASS = 0xFFFF  # instead of a model's number: whether a module runs this pass, which has used no known weight
_kept = []  # callbacks, kept alive as long as the library may call them


def install_functions(module, library):
    """torch.autograd.function: the forward of a custom Function runs without grad, though its pass has a backward."""
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
    """(the check of a Function that begins, or None; whether we may ask for the tensors that it keeps)"""
    try:
        return opaque.begin(library), tripwire.keeps_plainly()
    except Exception:  # noqa: BLE001: never into the program
        return None, False


def _generating(kind, part):
    """The module whose generate() runs a part of it, such as an encoder, on its own."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_locals.get("self") if frame.f_code.co_name == "generate" else None
        if isinstance(module, kind) and any(each is part for each in module.modules()):
            return module
        frame = frame.f_back
    return part


def _outermost(kind):
    """The outermost module whose forward is running in this thread. If it only wraps another module, that one."""
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
    """1 if the outermost running call of a module in this thread was seen before, 2 if no module runs. Otherwise it is
    now marked as seen.

    The mark is in the frame of torch's own function. Nobody else reads that frame, and the mark disappears with it."""
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
    """The storages of its parameters. Under vmap or grad a parameter is wrapped, once for each transform."""
    from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor

    found = set()
    for each in module.parameters():
        while is_functorch_wrapped_tensor(each):
            each = get_unwrapped(each)
        found.add(each.untyped_storage()._cdata)
    return found


def _mode(module):
    """1 in training mode, plus 2 if it has parameters and none of them is trained."""
    parameters = list(itertools.islice(module.parameters(), 1))
    frozen = bool(parameters) and not any(each.requires_grad for each in module.parameters())
    return int(module.training) + 2 * frozen


def install_modules(module, library):
    """torch.nn.modules.module: tells the names of models and their mode."""
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
        except Exception:  # noqa: BLE001: a model without a name is still counted
            pass

    def owns(number, table):
        try:
            found = _outermost(kind)
            if number == _THIS_PASS:
                return int(found is not None and table in _storages(found))
            known = _models.get(number)
            if found is not None and known is not None and known() is found:
                return 2
            return int(found is None or any(each.untyped_storage()._cdata == table for each in found.parameters()))
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
    same = known is not None and known() is found  # its weight is now another tensor, as under autocast
    if name == "Embedding":  # called on its own: the model that it is part of may follow
        return library.name_model(number, name.encode(), _mode(found) | 8)
    if _names.get(number, name) != name:  # its memory belonged to a model of another class, which is gone
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
