"""The part that Python has in windows of profiled steps. The program's own profilers come first, and this file answers
when torch asks Python whether a profiler runs. The window itself belongs to the library (src/torch/window.cc)."""

import atexit
import functools
import sys
import threading

from . import binding as types

_kept = []


def install(module, library):
    """torch.autograd.profiler: ends our profiler when the program starts one of its own."""
    for name in ("_prepare_profiler", "_enable_profiler"):
        _ours_first(module, name, library)
    _kept.append(types.WINDOW_SEEN(functools.partial(_seen, module)))
    library.windows(_kept[-1])
    atexit.register(_leave, library)


def install_profile(module, library):
    """torch.profiler.profiler: a profiler that waits for its scheduled step will begin later, and ours must not run
    then."""
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
    """Sets what compiled code checks before it names its regions. Empties the device's queue before the window ends."""
    try:
        # How many windows have begun plus how many have ended, so the number is odd while one is open. Whoever measures
        # rates leaves this time out. It is kept in torch's module, because a process may have this package twice.
        turns = getattr(module, "_mfu_turns", 0)
        if what != 2 and (what == 1) == (turns % 2 == 0):
            module._mfu_turns = turns + 1
        if what == 2:
            torch = sys.modules["torch"]
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            return
        module._is_profiler_enabled = what == 1
    except Exception:  # then the trace only has fewer names
        pass


def _leave(library):
    """Called when the interpreter ends. From then on, nothing of it may be called; an open trace is written."""
    library.end_window(1)
    library.windows(types.WINDOW_SEEN(0))


def leave_if_stopping(library):
    """Called after a step of a loop that is not in the main thread, where no signal handler runs."""
    if library.stopping() and threading.current_thread() is not threading.main_thread():
        raise SystemExit(0)
