"""`with mfu.count() as counted:` counts what a piece of a program really runs."""

import importlib
import os
import sys
import threading
import time
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _modules
from ._load import observer
from ._manners import let_through

_lock = threading.Lock()
_tracker: Optional[_modules.Tracker] = None
_warned = False


def _tracker_of(glue: Any) -> _modules.Tracker:
    global _tracker
    with _lock:
        if _tracker is None:
            types = sys.modules[glue.__name__ + ".binding"]
            _tracker = _modules.Tracker(sys.modules["torch"], glue.library(), types)
            for hook in (_tracker._before, _tracker._after):
                sys.modules[glue.__name__ + ".boundaries"].skip_in_dynamo(hook)
        return _tracker


class Counted:
    """What ran inside the block. While the block runs: what ran so far.

    model_flop       what was needed, without recomputation
    hardware_flop    what was executed; get_total_flops() is the same number
    recomputed_flop  what activation checkpointing ran again
    by_operator      {"aten::addmm": FLOP, …}; by_dtype {"fp32": FLOP, …}; by_module {"Global": FLOP, "Net": FLOP,
                     "Net.fc1": FLOP, …}
    uncounted        operators whose FLOPs are not known, with calls and reason
    tokens, samples, steps, calls, seconds

    All threads of the process are counted. If nothing could be counted, every number is None and `problem` says why;
    the program never fails because of it. An object can be used again after its block: it then counts from zero.
    Several may be open at once, nested or side by side.
    """

    def __init__(self, modules: bool = True, depth: Optional[int] = 2, display: bool = False) -> None:
        self._modules, self._depth, self._display = modules, depth, display
        self.problem = ""
        self._glue: Any = None
        self._before: Any = None
        self._after: Any = None
        self._tracker: Optional[_modules.Tracker] = None
        self._module_before: Dict[_modules.Place, int] = {}
        self._module_after: Optional[Dict[str, Dict[str, int]]] = None
        self._started = self._ended = 0.0

    def __enter__(self) -> "Counted":
        if self._glue is not None:
            raise RuntimeError("this count is open already: make another one with mfu.count()")
        self._after = self._module_after = None
        self.problem = ""
        try:
            glue = observer()
            glue.start(region_folder="")
        except Exception as error:
            let_through(error)
            self._fail(error)
            return self
        self._glue = glue
        if self._modules:
            try:
                self._tracker = _tracker_of(glue)
                self._tracker.enter()
                self._module_before = dict(self._tracker.read_counts())
            except Exception as error:  # everything else is counted all the same
                self._tracker = None
                warnings.warn(f"mfu.count: nothing by module: {error}", RuntimeWarning, stacklevel=2)
        glue.settle_lengths()
        self._before = glue.totals()
        self._started = time.perf_counter()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._ended = time.perf_counter()
        glue, self._glue = self._glue, None
        if glue is None:
            return
        try:
            glue.settle_lengths()
            self._after = glue.totals() - self._before
            if self._tracker is not None:
                self._module_after = self._module_counts()
                self._tracker.leave()
                self._tracker = None
        finally:
            glue.stop()
        if self._display:
            print(self.get_table(self._depth))

    def _fail(self, error: Exception) -> None:
        global _warned
        self.problem = f"nothing is counted: {error}"
        self._started = time.perf_counter()
        if not _warned:
            _warned = True
            warnings.warn(f"mfu.count: {self.problem}", RuntimeWarning, stacklevel=3)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator: every call starts a new count."""
        import functools

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return counted

    def _totals(self) -> Any:
        if self._after is not None:
            return self._after
        return self._glue.totals() - self._before if self._glue is not None and self._before is not None else None

    def __getattr__(self, name: str) -> Any:
        if name in ("hardware_flop", "model_flop", "recomputed_flop", "calls", "tokens", "samples", "steps"):
            totals = self._totals()
            if totals is None:
                return None
            if name == "tokens" and totals.tokens <= 0:
                return None  # nothing was looked up in an embedding table
            return getattr(totals, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    hardware_flop: Optional[int]
    model_flop: Optional[int]
    recomputed_flop: Optional[int]
    calls: Optional[int]
    tokens: Optional[int]
    samples: Optional[int]
    steps: Optional[int]

    @property
    def seconds(self) -> float:
        return (self._ended if self._after is not None or self.problem else time.perf_counter()) - self._started

    def _by(self, place: int) -> Dict[str, int]:
        totals = self._totals()
        found: Dict[str, int] = {}
        for key, row in (totals.rows if totals is not None else {}).items():
            if not key[2]:
                found[key[place]] = found.get(key[place], 0) + row["hardware_flop"]
        return found

    @property
    def by_operator(self) -> Dict[str, int]:
        return self._by(0)

    @property
    def by_dtype(self) -> Dict[str, int]:
        return self._by(1)

    @property
    def uncounted(self) -> List[Dict[str, Any]]:
        totals = self._totals()
        return totals.uncounted() if totals is not None else []

    def _module_counts(self) -> Dict[str, Dict[str, int]]:
        if self._module_after is not None:
            return self._module_after
        if self._tracker is None:
            return {}
        now = self._tracker.read_counts()
        more = {
            place: flop - self._module_before.get(place, 0)
            for place, flop in now.items()
            if flop != self._module_before.get(place, 0)
        }
        names = self._tracker.names_of({operator for _, operator in more})
        return _modules.rolled_up({(chain, names[operator]): flop for (chain, operator), flop in more.items()})

    @property
    def by_module(self) -> Dict[str, int]:
        """FLOPs of each module, including everything inside it, forward and backward. A name is the class of the
        outermost module, followed by attribute names."""
        return {
            _modules.GLOBAL: self.hardware_flop or 0,
            **{name: sum(by.values()) for name, by in self._module_counts().items()},
        }

    def utilization(
        self,
        *,
        device: Optional[str] = None,
        dtype: Optional[str] = None,
        peak: Optional[float] = None,
        catalog: str = "",
    ) -> Any:
        """MFU and HFU of what was counted in the time it took, each data type against its own peak:
        utilization(device="NVIDIA H100 80GB HBM3").mfu.

        `dtype` compares all of it with the peak of that type, `peak` with a rate. Without both, the device that torch
        runs on is used.
        """
        from ._answers import UtilizationAnswer
        from ._errors import NotFound

        found = peaks_of_this_rank(device, dtype, peak, catalog).utilization(work_by_type(self._totals()), self.seconds)
        if found is None:
            raise NotFound(f"{device or 'this device'} has no known peak for what ran: give device= or peak=")
        return UtilizationAnswer(found)

    # The same methods as torch.utils.flop_counter.FlopCounterMode has.
    def get_total_flops(self) -> Optional[int]:
        return self.hardware_flop

    def get_flop_counts(self) -> Dict[str, Dict[str, int]]:
        """FLOPs by module (with everything inside it) and operator: {"Global": {"aten::mm": FLOP, …}, "Net":
        {"aten::mm": FLOP, …}, "Net.fc1": …}."""
        return {
            _modules.GLOBAL: {name: flop for name, flop in self.by_operator.items() if flop},
            **{name: dict(by) for name, by in self._module_counts().items()},
        }

    def get_table(self, depth: Optional[int] = None) -> str:
        total = self.hardware_flop
        if total is None:
            return self.problem
        most = self._depth if depth is None else depth
        rows = [("Module", "FLOP", "share")]
        for name, flop in self.by_module.items():
            level = 0 if name == _modules.GLOBAL else name.count(".") + 1
            if most is None or level <= most:
                rows.append((" " * level + name, f"{flop:,}", f"{100 * flop / total:.1f}%" if total else "-"))
        for name, flop in sorted(self.by_operator.items(), key=lambda row: -row[1]):
            rows.append((f" - {name}", f"{flop:,}", f"{100 * flop / total:.1f}%" if total else "-"))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}" for row in rows)

    def __repr__(self) -> str:
        return (
            f"mfu.Counted(model_flop={self.model_flop}, hardware_flop={self.hardware_flop},"
            f" recomputed_flop={self.recomputed_flop})"
        )


def work_by_type(totals: Any) -> List[Tuple[str, bool, int, int]]:
    """The counted FLOPs in the form that _core.Peaks.utilization takes: type, whether they are of convolutions, model
    FLOPs, hardware FLOPs."""
    work: Dict[Tuple[str, bool], List[int]] = {}
    for (operator, dtype, reason), row in (totals.rows if totals is not None else {}).items():
        if not reason:
            flop = work.setdefault((dtype, "conv" in operator), [0, 0])
            flop[0] += row["model_flop"]
            flop[1] += row["hardware_flop"]
    return [(dtype, convolution, model, hardware) for (dtype, convolution), (model, hardware) in work.items()]


def peaks_of_this_rank(
    device: Optional[str] = None, dtype: Optional[str] = None, peak: Optional[float] = None, catalog: str = ""
) -> Any:
    """The peaks of the device named, of the GPU that torch runs on, or of this rank's part of the processor."""
    import torch

    from . import _core

    traits = importlib.import_module(observer().__name__ + ".traits")
    said: Dict[str, Any] = {}
    if device is None and torch.cuda.is_available():
        seen = traits.device_traits()
        device = seen["name"]
        said = {"architecture": seen["architecture"] or "", "units": seen["units"], "memory": seen["memory"]}
    matmul, convolution = traits.tf32_allowed()
    # Ranks that share a processor share its one peak.
    sharers = max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1))
    return _core.Peaks(device, dtype, peak, catalog, bool(matmul), bool(convolution), sharers, **said)


def count(mods: Any = None, depth: Optional[int] = 2, display: bool = False, *, modules: bool = True) -> Counted:
    """Counts what runs inside, exactly and at almost no cost:

        with mfu.count() as counted:
            model(batch).loss.backward()
        counted.model_flop, counted.by_operator, counted.by_module

    It can replace FlopCounterMode (`mods` is accepted and ignored, as there). It also sees other threads,
    torch.compile, fused attention on CPUs and LSTMs, and prints only with `display=True`. `modules=False` leaves out
    the hooks on modules: then no Python of ours runs while the block runs.
    """
    return Counted(modules=modules, depth=depth, display=display)
