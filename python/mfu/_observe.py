"""mfu.observe(): counts this process from now until its end, into a run directory, without `mfu run`."""

import atexit
import os
import subprocess
import sys
import threading
import warnings
from typing import Any, Dict, Optional, Sequence

from ._count import Counted
from ._load import observer

_lock = threading.Lock()
_current: "Optional[Observation]" = None


class Observation:
    """What mfu.observe() returns. `directory` is the run directory. The counts so far are attributes, as in
    mfu.count().

    `mfu` can read the directory at any time, on any machine. summary.json appears in it soon after the process has
    ended. If nothing can be observed, `directory` is None, `problem` says why, and the program goes on.
    """

    def __init__(self, directory: Optional[str], problem: str, counted: Counted) -> None:
        self.directory, self.problem = directory, problem
        self.counted = counted

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "counted":
            raise AttributeError(name)
        return getattr(self.counted, name)

    def mark_step(self, index: int = -1) -> None:
        mark_step(index)

    def __repr__(self) -> str:
        return f"mfu.Observation({self.problem or self.directory!r})"


def observe(
    directory: "str | os.PathLike[str] | None" = None, *, step_marker: Optional[str] = None, children: bool = True
) -> Observation:
    """Counts this process, and the processes it starts, from now on:

        import mfu
        run = mfu.observe()              # ./mfu-runs/NAME, or the directory you name
        … train …                        # steps end where optimizers step, or by mfu.mark_step()
        print(run.directory, run.model_flop)

    Under `mfu run` this is the same run. A second call returns the same observation. It never raises: see `problem`.
    """
    global _current
    with _lock:
        if _current is not None:
            return _current
        try:
            _current = _begin(None if directory is None else os.fspath(directory), step_marker, children)
        except Exception as error:
            warnings.warn(f"mfu.observe: this process is not observed: {error}", RuntimeWarning, stacklevel=2)
            return Observation(None, f"not observed: {error}", Counted(modules=False))
        return _current


def _begin(directory: Optional[str], step_marker: Optional[str], children: bool) -> Observation:
    region = os.environ.get("MFU_REGION_DIR", "")
    place = os.environ.get("MFU_RUN_DIR") or None
    if not region:
        from . import _core

        observer().library(_torch())  # a torch that cannot be observed leaves no run directory
        place, region, notes = _core.create_run(directory or "", _command())
        for note in notes:
            warnings.warn(f"mfu.observe: {note}", RuntimeWarning, stacklevel=4)
        _drain(place, region)
        if children:
            _reach_children(place, region)
    glue = observer()
    glue.start(region_folder=region, step_marker=step_marker)
    counted = Counted(modules=False)
    counted.__enter__()
    atexit.register(counted.__exit__)
    return Observation(place, counted.problem, counted)


def _torch() -> Any:
    import torch

    return torch


def _command() -> Sequence[str]:
    words = list(getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv])
    return _of_ray(words) if words[1:] and words[1].endswith("/default_worker.py") else words


def _of_ray(words: Sequence[str]) -> Sequence[str]:
    """A Ray worker's words name this one process. What is left is equal for all workers of a job, also for one that is
    started again."""
    kept = [*words[:2], *(word for word in words if word.startswith("--session-name="))]
    try:
        return [*kept, "--job=" + sys.modules["ray"].get_runtime_context().get_job_id()]
    except Exception:
        return kept


def _drain(directory: str, region: str) -> None:
    """Starts another process that copies the counts to the disk and ends after this one."""
    from .__main__ import binary

    started = subprocess.Popen(
        [str(binary()), "run", "--detached", "--drain", region, "--dir", directory],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
    )
    try:
        started.wait(timeout=5)  # it leaves a process that is nobody's child
    except subprocess.TimeoutExpired:
        pass


def _reach_children(directory: str, region: str) -> None:
    """Gives processes that this one starts the environment that `mfu run` would have given them."""
    inject = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_inject")
    before = os.environ.get("PYTHONPATH", "")
    changes: Dict[str, str] = {
        "MFU_RUN_DIR": directory,
        "MFU_REGION_DIR": region,
        "PYTHONPATH": inject + (os.pathsep + before if before else ""),
    }
    os.environ.update(changes)


def mark_step(index: int = -1) -> None:
    """Ends a step here, for programs without an optimizer step (generation, evaluation). `index` is the program's own
    number for it. It costs nothing if nothing is counted."""
    glue = sys.modules.get("_mfu_observer")
    library = getattr(glue, "_library", None)
    if library is not None and library.active():
        library.mark_step(index)
