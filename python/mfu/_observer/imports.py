"""Calls a function once a module is imported: now, if it is, else right after its own code ran; or around that code. Modules nobody imports cost nothing."""

import importlib.util
import sys

_waiting = {}
_around = {}


class _Loader:
    """The module's own loader, which also calls those who wait for the module."""

    def __init__(self, loader, name):
        self._loader, self._name = loader, name

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        spec = module.__spec__
        spec.loader = module.__loader__ = self._loader
        change = _around.pop(self._name, None)
        if change is not None:
            change(+1)
        try:
            self._loader.exec_module(module)
        finally:
            if change is not None:
                change(-1)
        for callback in _waiting.pop(self._name, ()):
            callback(module)


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if (name not in _waiting and name not in _around) or getattr(self, "busy", None) == name:
            return None
        self.busy = name
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = None
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, name)
        return spec


_finder = _Finder()


def when_imported(name, callback):
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        callback(module)
        return
    _waiting.setdefault(name, []).append(callback)
    _find()


def while_imported(name, change):
    """change(+1) before the module's own code runs, change(-1) after it; nothing if it ran already."""
    if name not in sys.modules:
        _around[name] = change
        _find()


def _find():
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
