"""The part of mfu that runs inside an observed process, together with libmfu_torch.so.

    from mfu import _observer
    _observer.start()                 # whole process: region in MFU_REGION_DIR, or private memory
    before = _observer.totals()
    ...
    _observer.totals() - before

The library counts. Python only tells it what only Python can see: checkpoints (checkpoint.py), custom Functions and
models (passes.py), compiled graphs (compiled.py), optimizer steps, skipped steps and saving (boundaries.py). Nothing
here raises into the program: if something cannot be watched, a note says so.
"""

import os
import sys
import threading

from .binding import LibraryError  # noqa: F401: what start() raises

_lock = threading.Lock()
_library = None
_glue = False


def library(torch=None, may_build=True):
    """The library, which the first call loads. Raises LibraryError with a sentence for the user."""
    global _library
    with _lock:
        if _library is None:
            from . import binding

            _library = binding.load(torch or sys.modules["torch"], may_build)
        return _library


def start(region_folder=None, step_marker=None, may_build=True, run_folder=None, explain=None):
    """Counts from now on, in all threads. Each start() needs its stop(). Raises LibraryError if it cannot count.

    `explain`: which steps to explain (mfu_observer_explain). Their traces go to `run_folder`."""
    import torch

    loaded = library(torch, may_build)
    folder = os.environ.get("MFU_REGION_DIR", "") if region_folder is None else region_folder
    marker = os.environ.get("MFU_STEP_MARKER", "") if step_marker is None else step_marker
    from . import formulas

    formulas.begin(loaded)
    _install(torch, loaded)
    if run_folder:
        loaded.explain(run_folder.encode(), (explain or "").encode())
    if loaded.start(folder.encode() or None, marker.encode() or None) != 0:
        raise LibraryError(loaded.problem().decode())
    return loaded


def stop():
    if _library is not None:
        _library.stop()


def _install(torch, loaded):
    """Watches what only Python can see. It does this once per process."""
    global _glue
    with _lock:
        # torch itself is marked, because a process may have this package twice: under the name that the injection
        # uses and under its own.
        if _glue or getattr(torch, "_mfu_glue", False):
            return
        _glue = torch._mfu_glue = True
    from pathlib import Path

    from . import boundaries, checkpoint, devices, imports, passes, windows

    try:
        loaded.watch_shims(Path(torch.__file__).parent)
    except Exception as error:  # noqa: BLE001
        loaded.fact(b"note", f"AOTInductor packages are not watched: {error}".encode())

    devices.install(torch, loaded)
    for name, install in (
        ("multiprocessing.util", boundaries.install_goodbye),
        ("signal", boundaries.install_signal),
        ("torch.utils.checkpoint", checkpoint.install),
        ("torch.autograd.function", passes.install_functions),
        ("torch.nn.modules.module", passes.install_modules),
        ("torch.autograd.graph", checkpoint.install_engine),
        ("torch.optim.optimizer", boundaries.install_optimizer),
        ("torch.amp.grad_scaler", boundaries.install_scaler),
        ("torch.serialization", boundaries.install_save),
        ("safetensors.torch", boundaries.install_file_save),
        ("torch.distributed.checkpoint.state_dict_saver", boundaries.install_shard_save),
        ("torch._inductor.compile_fx", _later("compiled", "install_compiler")),
        ("torch._inductor.output_code", _later("compiled", "install_graphs")),
        ("torch._inductor.codecache", _later("compiled", "install_caches")),
        ("torch._inductor.package", _later("packages", "install")),
        ("torch.distributed.distributed_c10d", boundaries.install_ranks),
        ("torch.autograd.profiler", windows.install),
        ("torch.profiler.profiler", windows.install_profile),
        ("torch.autograd.profiler_legacy", windows.install_legacy),
        ("torch.library", _watch_definitions),
        ("torch.cuda", _later("graphs", "install")),
        ("torch.xpu", _later("graphs", "install")),
        ("tqdm.std", _later("drawing", "install_tqdm")),
        ("rich.live", _later("drawing", "install_rich")),
        ("curses", _later("drawing", "install_curses")),
    ):
        imports.when_imported(name, _guarded(name, install, loaded))
    _libraries(loaded)
    imports.while_imported(
        "torch._dynamo.variables.torch_function", loaded.pause
    )  # tries every operator on a tensor (torch 2.6): no work of the program's


def _watch_definitions(module, loaded):
    """torch.library: watches operators that anybody defines, from their first call on."""
    import functools

    from . import imports

    imports.at_imports(loaded.refresh)
    impl = module.Library.impl

    @functools.wraps(impl)
    def watched(*args, **kwargs):
        result = impl(*args, **kwargs)
        loaded.refresh()
        return result

    module.Library.impl = watched


def _libraries(loaded):
    """Libraries that compute past the dispatcher are watched once they are imported."""
    from . import libraries

    try:
        libraries.install(loaded)
    except Exception as error:  # noqa: BLE001
        loaded.fact(b"note", f"libraries past the dispatcher are not watched: {error}".encode())


def _later(part, function):
    """Few programs import Inductor, so our part for it is loaded only when they do."""

    def install(module, loaded):
        from importlib import import_module

        getattr(import_module(f"{__name__}.{part}"), function)(module, loaded)

    return install


def _guarded(name, install, loaded):
    def guarded(module):
        try:
            install(module, loaded)
        except Exception as error:  # noqa: BLE001: a torch we do not know must still train
            loaded.fact(b"note", f"{name} is not watched: {type(error).__name__}: {error}".encode())

    return guarded


class Totals:
    """Counts of the process so far. The difference of two is what was counted between them."""

    FIELDS = "hardware_flop model_flop recomputed_flop calls uncounted_calls tokens token_rows samples steps".split()

    def __init__(self, values, rows):
        self.values, self.rows = values, rows

    def __getattr__(self, name):
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __sub__(self, other):
        values = {name: self.values[name] - other.values[name] for name in self.FIELDS if name != "token_rows"}
        values["token_rows"] = self.values["token_rows"]
        rows = {}
        for key, row in self.rows.items():
            before = other.rows.get(key)
            left = {name: row[name] - (before[name] if before else 0) for name in row}
            if left["calls"]:
                rows[key] = left
        return Totals(values, rows)

    def flop_by_operator(self):
        found = {}
        for (name, _, reason), row in self.rows.items():
            if not reason:
                found[name] = found.get(name, 0) + row["hardware_flop"]
        return found

    def uncounted(self):
        return [
            {"operator": name, "calls": row["calls"], "reason": reason}
            for (name, _, reason), row in self.rows.items()
            if reason
        ]


def settle_lengths():
    """Counts packed attention whose lengths have not arrived from a device yet. Waits for them up to a second."""
    library().settle_lengths()
    late = sys.modules.get(f"{__package__}.libraries.lengths")
    if late is not None:
        late.settle()


def totals():
    """Everything counted by this process since the first start."""
    from . import binding as types

    loaded = library()
    given = types.Totals()
    loaded.read_totals(given)
    values = {
        name: getattr(given, name) for name in ("calls", "uncounted_calls", "tokens", "token_rows", "samples", "steps")
    }
    for name in ("hardware_flop", "model_flop", "recomputed_flop"):
        values[name] = getattr(given, name + "_high") << 64 | getattr(given, name + "_low")
    capacity = 256
    while True:
        rows = (types.Row * capacity)()
        count = loaded.read_rows(rows, capacity)
        if count <= capacity:
            break
        capacity = count
    table = {}
    for row in rows[:count]:
        table[row.name.decode(), row.type.decode(), row.reason.decode()] = {
            "calls": row.calls,
            "bytes": row.bytes,
            "hardware_flop": row.hardware_flop_high << 64 | row.hardware_flop_low,
            "model_flop": row.model_flop_high << 64 | row.model_flop_low,
            "recomputed_flop": row.recomputed_flop_high << 64 | row.recomputed_flop_low,
        }
    return Totals(values, table)


def phases_at():
    """The address of mfu_observer_read_phases, for native code. 0 if the library is not loaded."""
    import ctypes

    return 0 if _library is None else ctypes.cast(_library.read_phases, ctypes.c_void_p).value or 0


def phases(settle=False):
    """Sums over passes by (phase, number of the model). Some passes are only known from what follows them: with
    `settle` they are decided as if nothing followed."""
    from . import binding as types

    loaded = library()
    rows = (types.Phase * 256)()  # as many as a process has room for
    count = min(loaded.read_phases(int(settle), rows, len(rows)), len(rows))
    return {
        (row.phase.decode(), row.model_number): {
            "model": row.model.decode(),
            "passes": row.passes,
            "tokens": row.tokens,
            "padded_tokens": row.padded_tokens,
            "samples": row.samples,
            "time_ns": row.time_ns,
            "model_flop": row.model_flop_high << 64 | row.model_flop_low,
            "hardware_flop": row.hardware_flop_high << 64 | row.hardware_flop_low,
            "moved_bytes": row.weight_read_bytes + row.cache_read_bytes + row.cache_written_bytes,
        }
        for row in rows[:count]
    }
