"""MFU in the logs of a training framework, in three lines.

transformers:     trainer = Trainer(…)
                  mfu.callbacks.attach(trainer)
                  trainer.train()

Lightning:        trainer = lightning.Trainer(callbacks=[mfu.callbacks.LightningCallback()])

Accelerate:       meter = mfu.callbacks.AcceleratorMeter(accelerator)
                  for batch in loader:
                      …; optimizer.step(); meter.step()

Each log gets, over the steps since the last log: perf/mfu (a fraction of the peak of this rank's device),
perf/mfu_percent, perf/hfu, perf/step_time, perf/steps_per_second, perf/tokens_per_second and perf/flop_per_s. From the
first one on whose steps generated (as in GRPO), it also gets each phase: mfu/prefill/tokens, …/flop, …/time,
…/mfu_percentage, …/mbu_percentage, and the same for decode, train, forward and validation (docs/generation.md).

Each data type is compared with its own peak on the device that torch runs on. `device=` names another device, `dtype=`
compares everything with the peak of one type, and `peak=` gives a rate. If a peak is not known there is no MFU, and one
warning says what to give. A log whose steps were profiled (`explain=3`, `mfu run --explain`) has none of these numbers,
nor has the next one. Nothing here raises into training.
"""

import logging
import sys
import time
import warnings
from typing import Any, Dict, Optional

from ._count import Counted, peaks_of_this_rank, work_by_type
from ._errors import Error
from ._manners import let_through, said
from ._phases import Phases


class Meter:
    """What was counted between two calls of window()."""

    def __init__(self, device: Optional[str] = None, dtype: Optional[str] = None, peak: Optional[float] = None) -> None:
        self._device, self._dtype, self._given = device, dtype, peak
        self._counted = Counted(modules=False)
        self._last: Optional[Dict[str, Any]] = None
        self._peaks: Any = None
        self._warned = False
        self._open = False
        self._held_up = False
        self._phases: Optional[Phases] = None
        self._generates = False

    def start(self) -> None:
        if not self._open:
            self._open = True
            self._counted.__enter__()
            self._last = self._reading()
            self._phases = Phases()

    def stop(self) -> None:
        if self._open:
            self._open = False
            self._counted.__exit__()

    @property
    def counted(self) -> Counted:
        """Everything since start()."""
        return self._counted

    def _reading(self) -> Dict[str, Any]:
        totals = self._counted._totals()
        reading: Dict[str, Any] = {"time": time.perf_counter(), "totals": totals, "profiled": _turns()}
        for name in ("model_flop", "tokens", "steps"):
            reading[name] = getattr(totals, name) if totals is not None else 0
        return reading

    def window(self, steps: Optional[int] = None) -> Dict[str, float]:
        """Metrics since the last call. Empty if nothing was counted."""
        try:
            return self._window(steps)
        except Exception as error:
            let_through(error)
            self._warn(f"no metrics: {said(error)}")
            return {}

    def _window(self, steps: Optional[int]) -> Dict[str, float]:
        before, now = self._last, self._reading()
        self._last = now
        if before is None or not self._open or self._counted.problem or now["time"] <= before["time"]:
            return {}
        # No rate includes profiled steps, nor the step after them, during which the profiler ends.
        turned, held_up = now["profiled"] != before["profiled"], self._held_up
        self._held_up = turned
        if turned or held_up or now["profiled"] % 2:
            return {}
        seconds = now["time"] - before["time"]
        model_flop = now["model_flop"] - before["model_flop"]
        if model_flop == 0:
            return {}
        metrics = {"perf/flop_per_s": model_flop / seconds}
        done = steps if steps is not None else now["steps"] - before["steps"]
        if done:
            metrics["perf/step_time"] = seconds / done
            metrics["perf/steps_per_second"] = done / seconds
        if now["tokens"] > before["tokens"]:
            metrics["perf/tokens_per_second"] = (now["tokens"] - before["tokens"]) / seconds
        try:
            if self._peaks is None:
                self._peaks = peaks_of_this_rank(self._device, self._dtype, self._given)
            used = self._peaks.utilization(work_by_type(now["totals"] - before["totals"]), seconds)
        except Error as error:
            used = None
            self._warn(f"no MFU: {error}. Give device= or peak= to the callback")
        if used is not None and used["complete"]:
            metrics["perf/mfu"] = used["mfu"]
            metrics["perf/mfu_percent"] = 100 * used["mfu"]
            metrics["perf/hfu"] = used["hfu"]
        else:
            self._warn("no MFU: the device has no known peak for what ran. Give device= or peak= to the callback")
        metrics.update(self._by_phase(now["totals"] - before["totals"]))
        return metrics

    def _by_phase(self, totals: Any) -> Dict[str, float]:
        """Metrics of the phases, if the program generates. Otherwise the other metrics are enough."""
        if self._phases is None:
            return {}
        work = sorted((flop, dtype, convolution) for dtype, convolution, flop, _ in work_by_type(totals))
        peak = self._peaks.choose(*work[-1][1:])[0] if work and self._peaks is not None else None
        metrics = self._phases.take(peak, self._peaks.bandwidth if self._peaks is not None else None)
        self._generates = self._generates or bool({"mfu/prefill/tokens", "mfu/decode/tokens"} & set(metrics))
        return metrics if self._generates else {}

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"mfu: {text}", RuntimeWarning, stacklevel=4)


def _trainer_callback(base: type) -> type:
    class TrainerCallback(base):  # type: ignore[misc]
        """For transformers' Trainer: puts the metrics into every log. attach(trainer) places it before the loggers."""

        def __init__(
            self,
            device: Optional[str] = None,
            dtype: Optional[str] = None,
            peak: Optional[float] = None,
            explain: int = 0,
        ) -> None:
            self.meter = Meter(device, dtype, peak)
            self.explained = _explained(explain, device, peak)
            self._step = 0

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.meter.start()
            if self.explained:
                self.explained.start()
            self._step = state.global_step

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **kwargs: Any
        ) -> None:
            if logs is None or "loss" not in logs:  # the log of an evaluation, or the summary at the end
                return
            metrics = self.meter.window(state.global_step - self._step)
            self._step = state.global_step
            logs.update(metrics)
            if state.log_history and state.log_history[-1].get("step") == state.global_step:
                state.log_history[-1].update(metrics)

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.meter.stop()
            _tell(self.explained)

    return TrainerCallback


def _lightning_callback(base: type) -> type:
    class LightningCallback(base):  # type: ignore[misc]
        """For lightning.Trainer: logs every log_every_n_steps."""

        def __init__(
            self,
            device: Optional[str] = None,
            dtype: Optional[str] = None,
            peak: Optional[float] = None,
            explain: int = 0,
        ) -> None:
            super().__init__()
            self.meter = Meter(device, dtype, peak)
            self.explained = _explained(explain, device, peak)
            self._step = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.meter.start()
            if self.explained:
                self.explained.start()
            self._step = trainer.global_step

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, *rest: Any
        ) -> None:
            done = trainer.global_step - self._step
            if done < max(1, trainer.log_every_n_steps):
                return
            metrics = self.meter.window(done)
            self._step = trainer.global_step
            trainer.callback_metrics.update({name: _tensor(value) for name, value in metrics.items()})
            for logger in trainer.loggers:
                logger.log_metrics(metrics, step=trainer.global_step)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.meter.stop()
            _tell(self.explained)

    return LightningCallback


def _explained(steps: int, device: Optional[str], peak: Optional[float]) -> Any:
    """With `explain=3`, three steps are explained. After training, `callback.explained.findings` has the findings, and
    the first one is logged."""
    from ._explain_steps import explain_steps

    return explain_steps(steps, device=device or "", peak=peak) if steps else None


def _tell(explained: Any) -> None:
    if explained is None:
        return
    explained.stop()
    for finding in explained.findings[:1]:
        logging.getLogger("mfu").warning("%s. %s", finding["title"], finding["fix"])


def _turns() -> int:
    """How often a window of profiled steps began or ended in this process (_observer/windows.py)."""
    return int(getattr(sys.modules.get("torch.autograd.profiler"), "_mfu_turns", 0))


def _tensor(value: float) -> Any:
    import torch

    return torch.tensor(value)


class AcceleratorMeter:
    """For Accelerate: `step()` after each optimizer step logs through accelerator.log every `every` steps."""

    def __init__(
        self,
        accelerator: Any,
        every: int = 10,
        device: Optional[str] = None,
        dtype: Optional[str] = None,
        peak: Optional[float] = None,
    ) -> None:
        self.meter = Meter(device, dtype, peak)
        self.latest: Dict[str, float] = {}
        self._accelerator, self._every, self._steps, self._since = accelerator, max(1, every), 0, 0
        self.meter.start()

    def step(self) -> None:
        self._steps += 1
        self._since += 1
        if self._since < self._every:
            return
        self.latest = self.meter.window(self._since)
        self._since = 0
        if self.latest:
            self._accelerator.log(self.latest, step=self._steps)

    def stop(self) -> None:
        self.meter.stop()


def attach(
    trainer: Any,
    device: Optional[str] = None,
    dtype: Optional[str] = None,
    peak: Optional[float] = None,
    explain: int = 0,
) -> Any:
    """Puts the metrics into the logs of a transformers Trainer before W&B, TensorBoard and the others get them. Returns
    the callback."""
    callback = __getattr__("TrainerCallback")(device, dtype, peak, explain)
    trainer.callback_handler.callbacks.insert(0, callback)
    return callback


_made: Dict[str, type] = {}


def __getattr__(name: str) -> Any:
    """Makes the callback classes at their first use, because not every program has the frameworks of their base
    classes."""
    if name in _made:
        return _made[name]
    if name == "TrainerCallback":
        from transformers import TrainerCallback as base

        _made[name] = _trainer_callback(base)
    elif name == "LightningCallback":
        try:
            from lightning.pytorch import Callback as base
        except ImportError:
            from pytorch_lightning import Callback as base
        _made[name] = _lightning_callback(base)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _made[name]
