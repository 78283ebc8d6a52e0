"""Calls a function when a module has been imported: at once if it already is, else right after the module's code ran.

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
_found = set()  # modules that were in sys.modules without an import
_by_hand = {}  # the same for awaited modules that may still be filled: how many names each had when it was last seen


class _Loader:
    """The module's own loader. After the module has run, it also calls the functions that wait for the module."""

    def __init__(self, loader, name):
        self._loader, self._name = loader, name

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        try:  # the module gets its own loader back
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


class _Begun(type(sys.__spec__)):
    """The spec of a module whose import had begun before anybody waited for it, such as a library that imports torch.
    The import system sets `_initializing` to False when the module's code has run, and then the callbacks are called.
    """

    @property
    def _initializing(self):
        return self.__dict__["_initializing"]

    @_initializing.setter
    def _initializing(self, value):
        self.__dict__["_initializing"] = value
        if not value:
            self.__class__ = type(sys.__spec__)
            module = sys.modules.get(self.name)
            if getattr(module, "__spec__", None) is self:  # otherwise it failed, and the next attempt is seen
                _imported(self.name, module)


class _Finder:
    """Asks the other finders for a module. If somebody waits for the module, it wraps the loader that they found."""

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
    if module is not None and name not in _waiting and name not in _around:
        try:
            module.__spec__.__class__ = _Begun
        except TypeError:  # the spec is not one of Python's own, so we are not told when the import ends
            pass
    _waiting.setdefault(name, []).append(callback)
    _wait()


def is_initializing(name):
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False)


def when_present(name):
    """Also waits for a module that is put into sys.modules by hand, which no finder sees. look() searches for it, and
    so does every import of another module."""
    if name in _waiting:
        _by_hand[name] = -1


def look(whole=False):
    """Looks for modules that were put into sys.modules by hand. With `whole`, they are complete. Otherwise
    somebody may still fill them, so a module that grew since the last search is left for the next one."""
    if not sys.modules.keys().isdisjoint(_by_hand.keys()):
        for name in [each for each in _by_hand if each in sys.modules]:
            look_for(name, whole)


def look_for(name, whole=True, seen=False):
    """Calls the functions that wait for this module, if it is there. `seen`: we saw its import."""
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
    """Whether the module was found in sys.modules without its import being seen."""
    return name in _found


def at_imports(function):
    """Calls the function whenever a module is looked up. Earlier imports have ended by then. It must not raise."""
    _at_imports.append(function)
    _wait()


def while_imported(name, change):
    """Calls change(+1) before the module's own code runs and change(-1) after it. Does nothing if it already ran."""
    if name not in sys.modules:
        _around[name] = change
        _wait()


def _wait():
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
