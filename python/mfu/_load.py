"""The observer of this process. There is only one, whether `mfu run` or this package loaded it."""

import importlib.util
import os
import sys
from typing import Any

_NAME = "_mfu_observer"  # the name under which the injection loads it, so that both use the same one


def phases_at() -> int:
    """The address of the observer's native function for phases. 0 if this process is not observed, or not yet."""
    loaded = sys.modules.get(_NAME)
    try:
        return int(loaded.phases_at()) if loaded is not None else 0
    except Exception:
        return 0


def observer() -> Any:
    """The package mfu/_observer, which wraps libmfu_torch.so. It imports torch only when the caller uses it."""
    loaded = sys.modules.get(_NAME)
    if loaded is None:
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_observer")
        spec = importlib.util.spec_from_file_location(
            _NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        assert spec is not None and spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[_NAME] = loaded
        try:
            spec.loader.exec_module(loaded)
        except BaseException:
            del sys.modules[_NAME]
            raise
    return loaded
