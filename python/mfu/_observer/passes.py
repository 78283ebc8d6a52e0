"""What the library cannot see of a pass: that a custom autograd Function runs it, which model it is of, and whether that is in training mode."""

import functools
import sys
import weakref

from . import binding as types
from . import tripwire
from .boundaries import skip_in_dynamo

_models = {}  # the library's number: a weak reference to the outermost module
_kept = []  # callbacks live as long as the library may call them


def install_functions(module, library):
    """torch.autograd.function: the forward of a custom Function runs without grad, and is kept for the backward all the same."""
    function = module.Function
    apply = function.__dict__["apply"].__func__
    enter = library.function

    @functools.wraps(apply)
    def marked(cls, *args, **kwargs):
        plain = tripwire.wants_functions() and tripwire.keeps_plainly()
        enter(1)
        try:
            result = apply(cls, *args, **kwargs)
        finally:
            enter(-1)
        if plain:
            try:
                tripwire.applied(result, plain)
            except Exception:  # noqa: BLE001: never into the program
                pass
        return result

    skip_in_dynamo(marked)
    function.apply = classmethod(marked)


def _outermost(kind):
    """The outermost module whose forward is running in this thread. What only wraps another one is looked through."""
    found, frame = None, sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "forward" or frame.f_code.co_name in ("_call_impl", "__call__"):
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


def install_modules(module, library):
    """torch.nn.modules.module: names of models, and their mode."""
    kind = module.Module

    def seen(number):
        try:
            found = _outermost(kind)
            if found is not None:
                _models[number] = weakref.ref(found)
                library.name_model(number, type(found).__name__.encode(), int(found.training))
        except Exception:  # noqa: BLE001: a model without a name is counted all the same
            pass

    _kept.append(types.MODEL_SEEN(seen))
    library.models(_kept[-1])
    import atexit

    atexit.register(library.models, types.MODEL_SEEN(0))
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


def _tell_modes(library):
    for number, reference in list(_models.items()):
        found = reference()
        if found is not None:
            library.name_model(number, None, int(found.training))
