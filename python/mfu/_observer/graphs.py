"""Counts captured work when a CUDA graph is replayed (torch.cuda.CUDAGraph, also on ROCm; torch.xpu.XPUGraph).

Everything that captures uses this class: torch.cuda.graph, make_graphed_callables, the runners of vLLM and SGLang. The
graphs of torch.compile(mode="reduce-overhead") run inside a compiled graph, which is counted by its description.
"""

import functools
import sys

from . import binding as types
from . import tripwire
from .boundaries import skip_in_dynamo

MOST = 512  # rows of one graph: one for each operator, type and device


def _watch(kind, library, module):
    """Wraps the three methods of a graph's class, once."""
    if not isinstance(kind, type) or "_mfu_watched" in vars(kind):
        return
    for name in ("capture_begin", "capture_end", "replay"):
        if not callable(getattr(kind, name, None)):
            return
    begin, end, replay = kind.capture_begin, kind.capture_end, kind.replay
    active, counted = library.active, library.replay

    @functools.wraps(begin)
    def watched_begin(self, *args, **kwargs):
        result = begin(self, *args, **kwargs)
        # If this torch has no such devices, the graph is a stand-in, and what it captures runs on the CPU.
        tripwire.capturing(+1)
        library.capture_begin(0 if _is_built(module) else 1)
        return result

    @functools.wraps(end)
    def watched_end(self, *args, **kwargs):
        tripwire.capturing(-1)
        rows = (types.GraphRow * MOST)()
        count = min(library.capture_end(rows, MOST), MOST)
        try:
            self._mfu_rows = rows, count
        except Exception:  # noqa: BLE001: an object that takes no new attributes
            library.add_uncounted(b"CUDA graph", b"what it holds could not be kept with it")
        return end(self, *args, **kwargs)

    @functools.wraps(replay)
    def watched_replay(self, *args, **kwargs):
        result = replay(self, *args, **kwargs)
        if active():
            rows = getattr(self, "_mfu_rows", None)
            if rows is None:
                library.add_uncounted(b"CUDA graph", b"captured before mfu watched")
            elif rows[1]:
                counted(*rows)
        return result

    for each in (watched_begin, watched_end, watched_replay):
        skip_in_dynamo(each)
    kind.capture_begin, kind.capture_end, kind.replay = watched_begin, watched_end, watched_replay
    kind._mfu_watched = True


def _is_built(module):
    """Whether this torch was built for such devices. No device is touched to find out."""
    import torch

    version = torch.version
    if module.__name__ == "torch.xpu":
        return getattr(version, "xpu", None) is not None
    return version.cuda is not None or getattr(version, "hip", None) is not None


def _watching(module, names, watch):
    """Also watches a class that later replaces torch's own."""
    before = type(module)
    if getattr(before, "_mfu_watches", False):
        return

    class Watching(before):
        _mfu_watches = True

        def __setattr__(self, name, value):
            if name in names:
                watch(value)
            super().__setattr__(name, value)

    Watching.__name__ = before.__name__
    Watching.__qualname__ = before.__qualname__
    Watching.__module__ = before.__module__
    module.__class__ = Watching


def install(module, library):
    """`module` is torch.cuda or torch.xpu."""
    names = ("CUDAGraph", "XPUGraph")

    def watch(kind):
        try:
            _watch(kind, library, module)
        except Exception as error:  # noqa: BLE001
            library.fact(b"note", f"CUDA graphs are not watched: {error}".encode())

    for place in (module, sys.modules.get(module.__name__ + ".graphs")):
        if place is None:
            continue
        for name in names:
            watch(getattr(place, name, None))
        if not _is_built(module):
            _watching(place, names, watch)
