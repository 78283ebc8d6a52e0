"""Weights & Biases through its own package. Reports go to the run of the process, or to a run that the monitor opens.

W&B takes the rows of a run in order. In a run that the program also writes to, a report that comes after the program's
newest row is merged into that row, and the newest report wins. A run of our own (wandb=True) keeps every step. What W&B
refuses is offered again after 1, 2, 4 … 60 seconds. A report that it refuses ten times is left out.
"""

import collections
import json
import sys
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Union

from ._manners import said

_METRICS = ("epoch", "loss", "grad_norm", "learning_rate")
_BASIS = ("convention", "source", "dtype", "peak_flop_per_s", "peak_source", "devices")
_MOST_HELD = 4096
_MOST_ATTEMPTS = 10
_LONGEST_PAUSE = 60.0

Warn = Callable[[str, str], None]


class WandbSink:
    """Only one thread of the monitor uses it, except for skip()."""

    def __init__(self, setting: Union[bool, str, None], settings: Dict[str, Any]) -> None:
        self._setting, self._settings = setting, settings
        self._own: Optional[Any] = None  # a run that we opened
        self._seen: Optional[Any] = None  # a run that already knows our axes
        self._basis: Dict[str, Any] = {}
        self._skipped: Set[int] = set()
        self._off = False
        self._held: Deque[str] = collections.deque()
        self._attempts, self._pause, self._next = 0, 0.0, 0.0
        self.lost = 0  # reports that W&B did not get and never will

    def skip(self, step: int) -> None:
        if len(self._skipped) < _MOST_HELD:
            self._skipped.add(step)

    def write(self, lines: List[str], warn: Warn, last: bool = False) -> None:
        if self._off:
            return
        self._held.extend(lines)
        while len(self._held) > _MOST_HELD:
            self._held.popleft()
            self.lost += 1
        if not self._held or (time.monotonic() < self._next and not last):
            return
        try:
            run = self._run(warn)
            if run is None:
                self._held.clear()
                return
            while self._held:
                self._log(run, json.loads(self._held[0]))
                self._held.popleft()
                self._attempts, self._pause = 0, 0.0
        except Exception as error:
            self._attempts += 1
            if self._attempts >= _MOST_ATTEMPTS and self._held:
                self._held.popleft()
                self.lost += 1
                self._attempts = 0
            self._pause = min(_LONGEST_PAUSE, 2 * self._pause or 1.0)
            self._next = time.monotonic() + self._pause
            warn(
                f"Weights & Biases: {type(error).__name__}: {said(error)}; it is tried again in the background, the"
                " other sinks go on",
                "wandb",
            )

    def _run(self, warn: Warn) -> Optional[Any]:
        if self._own is not None:
            return self._own
        if self._setting is None:
            # The program's run, if it has one. The package is not imported for that if nobody else did.
            package = sys.modules.get("wandb")
            return getattr(package, "run", None)
        try:
            import wandb
        except ImportError:
            self._off = True
            warn(
                "wandb is not installed: nothing goes to Weights & Biases (pip install wandb); the other sinks go on",
                "wandb",
            )
            return None
        options = {"project": self._setting} if isinstance(self._setting, str) else {}
        self._own = wandb.init(
            reinit="create_new", config={"mfu": self._settings}, settings=wandb.Settings(silent=True), **options
        )
        return self._own

    def _log(self, run: Any, report: Dict[str, Any]) -> None:
        step = report["step"]
        if step in self._skipped:
            self._skipped.discard(step)
            return
        if run is not self._seen:
            self._seen = run
            for pattern in ("perf/*", "mfu/*", "training/*"):
                run.define_metric(pattern, step_metric="mfu/step")
        row: Dict[str, Any] = {
            "mfu/step": step,
            **{f"training/{name}": report[name] for name in _METRICS if name in report},
        }
        row.update({name: value for name, value in report.items() if name.startswith(("perf/", "mfu/"))})
        basis = {name: report[name] for name in _BASIS if name in report}
        if basis != self._basis:
            self._basis = basis
            run.config.update({"mfu_basis": basis}, allow_val_change=True)
        run.log(row, step=max(step, run.step))

    def close(self, warn: Warn) -> None:
        self.write([], warn, last=True)
        self.lost += len(self._held)
        self._held.clear()
        if self.lost:
            warn(
                f"Weights & Biases: {self.lost} reports did not reach it; mfu export has every step of a run directory",
                "wandb lost",
            )
        if self._own is not None:
            try:
                self._own.finish()
            except Exception as error:
                warn(f"Weights & Biases did not end the run: {said(error)}", "wandb")
            self._own = None
