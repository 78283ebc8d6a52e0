"""monitor.step(): a step as a `with` block, whose operators are counted when that is due."""

import time
from typing import TYPE_CHECKING, Any, Dict, Optional

from . import _masks
from ._load import phases_at
from ._manners import let_through, said

if TYPE_CHECKING:
    from ._monitor import Monitor


class Step:
    """The object of a monitor.step() block. Its attributes loss, grad_norm, learning_rate, epoch, attention_mask, … are
    passed to log_step."""

    _monitor: "Monitor"
    _step: int
    _fields: Dict[str, Any]
    _started: float
    measured: bool  # whether its operators were counted
    flop: Optional[int]  # their FLOPs

    def __init__(self, monitor: "Monitor", step: int, fields: Dict[str, Any]) -> None:
        self.__dict__.update(_monitor=monitor, _step=step, _fields=fields, _counted=None, measured=False, flop=None)

    def __setattr__(self, name: str, value: Any) -> None:
        self._fields[name] = value

    def __enter__(self) -> "Step":
        due = False
        try:
            due = self._monitor.measurement_due(self._step)
            if due:
                from ._count import Counted

                counted = Counted(modules=False)
                counted.__enter__()
                if counted.problem:
                    self._monitor._warn(f"operators are not counted: {counted.problem}", "count")
                else:
                    self.__dict__["_counted"] = counted
                    self._monitor._core.read_phases_at(phases_at())
        except Exception as error:
            let_through(error)
            self._monitor._warn(f"operators are not counted: {said(error)}", "count")
        self.__dict__["_started"] = time.perf_counter()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        now = time.perf_counter()
        # The step is timed from the end of the one before. The block itself may only take as long as it takes to launch
        # the work of a device.
        before = self._monitor._step_ended
        seconds = now - (self._started if before is None else before)
        self._monitor._step_ended = now if kind is None else None
        counted = self.__dict__["_counted"]
        try:
            if counted is not None:
                counted.__exit__()
                if kind is None:
                    self._hand_over(counted)
        except Exception as problem:
            let_through(problem)
            self._monitor._warn(f"what was counted is left out: {said(problem)}", "count")
        if kind is None:
            if "step_seconds" not in self._fields:
                self._fields.setdefault("duration_s", seconds)
            self._monitor.log_step(self._step, **self._fields)

    def _hand_over(self, counted: Any) -> None:
        flop = counted.model_flop
        if not flop:
            self._monitor._warn(
                f"step {self._step} was counted as 0 FLOP: the model did not run inside step(), or on a device that"
                " is not counted",
                "zero",
            )
            return
        self.__dict__.update(measured=True, flop=flop)
        rows = counted._totals().rows
        attention = sum(
            row["model_flop"] for (name, _, reason), row in rows.items() if not reason and "attention" in name
        )
        fields = {
            name: self._fields[name]
            for name in ("batch", "seq", "lengths", "tokens", "squares", "padded_to", "images")
            if self._fields.get(name)
        }
        mask = self._fields.get("attention_mask")
        if mask is not None:
            if _masks.on_device(mask):  # this step is measured, so it may wait
                mask = mask.cpu()
            batch, tokens, squares, width = _masks.sums(mask)
            fields = {"batch": batch, "tokens": tokens, "squares": squares, "padded_to": width}
        self._monitor.add_reading(self._step, flop, attention_flop=attention or None, **fields)
