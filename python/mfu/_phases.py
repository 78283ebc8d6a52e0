"""Metrics of what each phase of this process did between two readings: mfu/prefill/tokens, …/flop, …/time,
…/mfu_percentage, …/mbu_percentage, and the same for decode, train, forward and validation (docs/generation.md).

The observer tells phases apart. Without it there are no such metrics."""

from typing import Any, Dict, Optional

from . import _core
from ._load import observer, phases_at
from ._manners import let_through

SHOWN = ("prefill", "decode", "train", "forward", "validation")


def read() -> Dict[str, Dict[str, int]]:
    """The sums over all models since the process began, by phase."""
    sums: Dict[str, Dict[str, int]] = {}
    if phases_at():
        for (phase, _), row in observer().phases().items():
            sum_ = sums.setdefault(phase, {"tokens": 0, "model_flop": 0, "time_ns": 0, "moved_bytes": 0})
            for name in sum_:
                sum_[name] += row[name]
    return sums


class Phases:
    """What was done between two calls of take()."""

    def __init__(self) -> None:
        self._before = read()

    def take(self, peak: Optional[float] = None, bandwidth: Optional[float] = None) -> Dict[str, float]:
        """Metrics since the last call, with utilizations if `peak` (FLOP/s) and `bandwidth` (bytes/s) are known. Empty
        if the observer cannot be asked. It never raises."""
        try:
            return self._taken(peak, bandwidth)
        except Exception as error:
            let_through(error)
            return {}

    def _taken(self, peak: Optional[float], bandwidth: Optional[float]) -> Dict[str, float]:
        before, self._before = self._before, read()
        metrics: Dict[str, float] = {}
        for phase in SHOWN:
            now: Any = self._before.get(phase)
            if now is None:
                continue
            done = {name: value - before.get(phase, {}).get(name, 0) for name, value in now.items()}
            if not (done["tokens"] or done["model_flop"]):
                continue
            seconds = done["time_ns"] / 1e9
            metrics[f"mfu/{phase}/tokens"] = done["tokens"]
            metrics[f"mfu/{phase}/flop"] = done["model_flop"]
            metrics[f"mfu/{phase}/time"] = seconds
            if seconds > 0 and peak:
                metrics[f"mfu/{phase}/mfu_percentage"] = 100 * _core.of_peak(done["model_flop"] / seconds, peak)
            if seconds > 0 and bandwidth and done["moved_bytes"]:
                metrics[f"mfu/{phase}/mbu_percentage"] = 100 * _core.of_peak(done["moved_bytes"] / seconds, bandwidth)
        return metrics
