"""Calls a function once a module is imported: now if it is, else right after the module's own code has run.

    when_imported("torch.optim.optimizer", install)
    while_imported("torch._dynamo", pause)      # pause(+1) before its code runs, pause(-1) after

A module that nobody imports costs nothing. Programs may look a module up without importing it
(`importlib.util.find_spec`), fail to import it and try again, or import it from several threads: a callback waits
until the module's code has run to its end, and runs once. `../_inject/start.py` uses this file before torch is there.
"""

import sys

_waiting = {}  # module's name -> callbacks
_around = {}
_at_imports = []  # called at each import that is looked up
_found = set()  # in sys.modules, and not by an import
_by_hand = {}  # of those waited for: how many names each had when it was seen in sys.modules without an import


class _Loader:
    """The module's own loader, which also calls those who wait for the module."""

    def __init__(self, loader, name):
        self._loader, self._name = loader, name

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        try:  # the module looks as if nobody had touched it
            module.__spec__.loader = module.__loader__ = self._loader
        except AttributeError:
            pass
        change = _around.get(self._name)
        if change is not None:
            change(+1)
        try:
            self._loader.exec_module(module)
        finally:
            if change is not None:
                change(-1)
        _found.discard(self._name)
        _imported(self._name, module)


class _Finder:
    """Finds nothing itself: asks the finders after it, and wraps the loader of a module that somebody waits for."""

    def find_spec(self, name, path=None, target=None):
        for each in _at_imports:
            each()
        look()
        if name not in _waiting and name not in _around:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                break
        else:
            return None
        # A folder without __init__.py has no code that could run.
        if spec.origin and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, name)
        return spec


_finder = _Finder()


def _imported(name, module):
    _around.pop(name, None)
    _by_hand.pop(name, None)
    for callback in _waiting.pop(name, ()):
        callback(module)
    if not _waiting and not _around and not _at_imports and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def when_imported(name, callback):
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        _found.add(name)
        callback(module)
        return
    _waiting.setdefault(name, []).append(callback)
    _wait()


def is_initializing(name):
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False)


def when_present(name):
    """Looks for a module that somebody puts into sys.modules himself, which no finder sees: whenever look() is called,
    and at each import that finds something else."""
    if name in _waiting:
        _by_hand[name] = -1


def look(whole=False):
    """Modules that were put into sys.modules meanwhile. `whole`: whoever did it is done with them; else they may still
    be filled, and one that grew since the last look waits for the next."""
    if not sys.modules.keys().isdisjoint(_by_hand.keys()):
        for name in [each for each in _by_hand if each in sys.modules]:
            look_for(name, whole)


def look_for(name, whole=True, seen=False):
    """`seen`: the import that brought it was seen."""
    module = sys.modules.get(name)
    if module is None or name not in _waiting or is_initializing(name):
        return
    names = getattr(module, "__dict__", {})
    if all(each.startswith("_") for each in names) or not whole and _by_hand.get(name) != len(names):
        if name in _by_hand:
            _by_hand[name] = len(names)
        return
    if not seen:
        _found.add(name)
    _imported(name, module)


def was_found(name):
    """Whether it was found in sys.modules, and not seen while it was imported."""
    return name in _found


def at_imports(function):
    """Calls it whenever a module is looked up: what an import before it brought is there then. It must not raise."""
    _at_imports.append(function)
    _wait()


def while_imported(name, change):
    """change(+1) before the module's own code runs, change(-1) after it; nothing if it ran already."""
    if name not in sys.modules:
        _around[name] = change
        _wait()


def _wait():
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
