"""Windows of profiled steps, as far as Python has a part in them: the program's own profilers go first, and what torch
asks
Python whether a profiler runs is answered. The window itself is the library's (src/torch/window.cc)."""

import atexit
import functools
import sys
import threading

from . import binding as types

_kept = []


def install(module, library):
    """torch.autograd.profiler: whoever begins a profiler of its own finds ours off. Installed once torch is there."""
    for name in ("_prepare_profiler", "_enable_profiler"):
        _ours_first(module, name, library)
    _kept.append(types.WINDOW_SEEN(functools.partial(_seen, module)))
    library.windows(_kept[-1])
    atexit.register(_leave, library)


def install_profile(module, library):
    """torch.profiler.profiler: one that waits by its schedule will begin later, and must not meet ours."""
    _ours_first(module.profile, "start", library)


def install_legacy(module, library):
    _ours_first(module, "_enable_profiler_legacy", library)


def _ours_first(owner, name, library):
    begin = getattr(owner, name, None)
    if begin is None:
        return

    @functools.wraps(begin)
    def watched(*args, **kwargs):
        library.other_profiler()
        return begin(*args, **kwargs)

    setattr(owner, name, watched)


def _seen(module, what):
    """What compiled code looks at before it names its regions, and the device's queue emptied before the end."""
    try:
        # Windows begun and ended, added up: odd while one is open. Whoever measures rates leaves out what lies between.
        # It stands on torch's module, since a process may have this package twice.
        turns = getattr(module, "_mfu_turns", 0)
        if what != 2 and (what == 1) == (turns % 2 == 0):
            module._mfu_turns = turns + 1
        if what == 2:
            torch = sys.modules["torch"]
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            return
        module._is_profiler_enabled = what == 1
    except Exception:  # noqa: BLE001: a trace with fewer names
        pass


def _leave(library):
    """The interpreter ends: nothing of it may be called any more, and a trace under way is written."""
    library.end_window(1)
    library.windows(types.WINDOW_SEEN(0))


def leave_if_stopping(library):
    """After a step of a loop that runs beside the main thread, where a signal's handler does not run."""
    if library.stopping() and threading.current_thread() is not threading.main_thread():
        raise SystemExit(0)
