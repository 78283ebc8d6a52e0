"""The functions and classes that scripts know from the documents, with the same arguments and results (docs/compat.md):

    from mfu.compat import *        # as training/utils/monitor.py, for instance

Some documented results are worse than what mfu knows: 0 on unmeasured steps, values clamped at 1, the forward pass only,
7b or an A100 if nothing is known. They are kept, with one warning of the better value. Nothing raises into a loop.
"""

import dataclasses
import math
import os
import re
import sys
import threading
import time
import warnings
import weakref
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple, Union

from . import _core, _masks, _phases
from ._answers import Answer
from ._manners import let_through, said, short, tell
from ._monitor import Monitor
from ._settings import Config

__all__ = [
    "MfuArgs", "TokenTracker", "TrainingMonitor", "calculate_mfu", "calculate_mfu_with_profiler", "calculate_model_flops_per_token", "calculate_precise_mfu",
    "get_gpu_peak_flops", "mfu_tokens_generated", "profile_model_flops", "_create_dummy_batch_for_profiling", "_estimate_flops_fallback",
    "_estimate_forward_flops", "_get_actual_sequence_length", "_get_visual_tokens", "_measure_flops_with_profiler",
]

_A100_FLOP_PER_S = 312e12  # dense bf16, which the documents assume
_VISUAL_TOKENS = 576  # for a picture without image_grid_thw: 24 x 24 patches
_said: Set[str] = set()


def _once(kind: str, message: str) -> None:
    if kind not in _said:
        _said.add(kind)
        tell(f"mfu.compat: {message}", 4)


# Generation in reinforcement learning.

@dataclasses.dataclass
class MfuArgs:
    """Options for a script's own arguments: `class Args(MfuArgs): …`, read by HfArgumentParser, tyro or simple-parsing."""

    enable_mfu_tracking: bool = True
    """Whether to enable MFU tracking"""
    mfu_calculation_freq: int = 10
    """How often to calculate MFU (in training steps)"""


mfu_tokens_generated: List[int] = []  # the documented shared list: threads append to it, TokenTracker.take() empties it


class TokenTracker:
    """Counts generated tokens: any thread calls add(n) or appends to `mfu_tokens_generated`. take() ends a period."""

    def __init__(self, shared: Optional[List[int]] = None) -> None:
        self.mfu_tokens_generated: List[int] = [] if shared is None else shared
        self._lock, self._since, self._phases = threading.Lock(), time.perf_counter(), _phases.Phases()

    def add(self, tokens: int) -> None:
        self.mfu_tokens_generated.append(tokens)  # one bytecode, so that no token is lost between threads

    def take(self, flops_per_token: float = 0.0, model_name: str = "") -> Answer:
        """The metrics of the period, with mfu/decode/… if the process is observed. The next period begins."""
        with self._lock:
            taken = self.mfu_tokens_generated[:]
            del self.mfu_tokens_generated[:len(taken)]  # tokens that were appended meanwhile stay
            now = time.perf_counter()
            elapsed, self._since = now - self._since, now
        tokens = sum(taken)
        rate = tokens / elapsed if elapsed > 0 else 0.0
        found = Answer({"mfu/tokens_per_second": rate, "mfu/flops_per_token": float(flops_per_token), "mfu/total_tokens_generated": tokens, "mfu/elapsed_time": elapsed})
        if flops_per_token or model_name:
            found["mfu/mfu_percentage"] = calculate_mfu(flops_per_token, rate, model_name)
        return Answer({**found, **self._phases.take(get_gpu_peak_flops() if flops_per_token or model_name else None)})


def calculate_model_flops_per_token(model: Any, tokenizer: Any = None) -> float:
    """FLOPs of a forward pass of one token, by counting its operators. If that fails: 0.0, with a warning that says why."""
    print("Calculating FLOPs per token for MFU tracking...")
    flop = _counted(model, 1, 1, "MFU calculation will be disabled")
    print(f"FLOPs per token: {flop}")
    if flop == 0:
        _once("zero", "0 FLOPs per token: the model is not loaded, is on the meta device, or takes no input_ids; MFU is 0 until that is corrected")
    return flop


def _size_in(name: str) -> Optional[float]:
    """The number of parameters in a name: "Llama-2-7b", "Qwen2.5-0.5B", "SmolLM-135M", "Mixtral-8x7B"."""
    found = re.search(r"(?<![0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", name.lower())
    if found is None:
        found = re.search(r"(?<![0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?!it|[0-9])", name.lower())
    if found is None:
        return None
    return int(found[1] or 1) * float(found[2]) * (1e9 if found[3] == "b" else 1e6)


def _generation_mfu(flops_per_token: float, tokens_per_second: float, model_name: str) -> float:
    size = _size_in(model_name)
    if size is None:
        _once("size", "Could not determine model size from model_name, using 7b as default")
        size = 7e9
    elif flops_per_token and not 0.5 <= flops_per_token / (2 * size) <= 2:
        _once("suspect", f"{flops_per_token:g} FLOPs per token are suspect for {model_name!r}: 2 x its size are {2 * size:g}")
    return 100 * _core.of_peak((flops_per_token or 2 * size) * tokens_per_second, get_gpu_peak_flops())


def calculate_mfu(*given: Any, **named: Any) -> float:
    """The forms of two documents, told apart by their arguments:

    calculate_mfu(flops_per_token, tokens_per_second, model_name)   percent
    calculate_mfu(flops, compute_time, gpu_peak_flops)              a fraction
    """
    generation = ("flops_per_token", "tokens_per_second", "model_name")
    step = ("flops", "compute_time", "gpu_peak_flops")
    is_step = any(name in step for name in named) or (len(given) == 3 and not isinstance(given[2], str))
    values = dict(zip(step if is_step else generation, given))
    try:
        if is_step:
            values.update(named)
            flop, seconds, peak = (float(values.pop(name)) for name in step)
        else:
            values = {"model_name": "", **values, **named}
            flop, seconds, peak = float(values.pop("flops_per_token") or 0), float(values.pop("tokens_per_second")), 0.0
            name = str(values.pop("model_name"))
    except (KeyError, TypeError, ValueError) as error:
        _once("calculate_mfu", f"calculate_mfu: {type(error).__name__}: {said(error)}; 0 is returned")
        return 0.0
    if values:
        raise TypeError(f"calculate_mfu has no argument {', '.join(values)}: ({', '.join(generation)}) or ({', '.join(step)})")
    if not is_step:
        return _generation_mfu(flop, seconds, name)
    if not (seconds > 0 and peak > 0 and math.isfinite(flop)):
        _once("step", f"calculate_mfu: {flop:g} FLOP in {seconds:g} s of {peak:g} FLOP/s: both must be above 0; 0 is returned")
        return 0.0
    return _core.of_peak(flop / seconds, peak)


_peak: Optional[float] = None


def get_gpu_peak_flops() -> float:
    """Dense bf16 FLOP/s of the GPU that torch runs on. If it is not known: an A100's, with a warning."""
    global _peak
    if _peak is None:
        _peak = _find_peak()
    return _peak


def _find_peak() -> float:
    better = ""
    try:
        from ._hardware import machine

        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            names = [torch.cuda.get_device_name()]
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                names = [device.name for device in machine()["devices"] if device["device"].get("kind") != "cpu"]
        for rate in (_core.Peaks(name).choose("bf16")[0] for name in names):
            if rate is not None:
                return rate
        rate, _, source = _core.Peaks().choose("fp32")
        better = f" ({source.split(',')[0]}: {rate:.4g} in fp32)" if rate else ""
    except Exception as error:
        let_through(error)
        better = f" ({said(error)})"
    _once("peak", f"no GPU was detected: the peak of an A100, 312 TFLOP/s, is taken, as documented. mfu.peak() and mfu.machine() know this machine's{better}")
    return _A100_FLOP_PER_S


def _create_dummy_batch_for_profiling(batch_size: int, seq_length: int, device: Any) -> Dict[str, Any]:
    import torch

    return {"input_ids": torch.ones((batch_size, seq_length), dtype=torch.long, device=device),
            "attention_mask": torch.ones((batch_size, seq_length), dtype=torch.long, device=device)}


def _run(model: Any, batch_size: int, seq_length: int) -> Any:
    device = next(model.parameters()).device
    batch = _create_dummy_batch_for_profiling(batch_size, seq_length, device)
    try:
        return model(**batch)
    except TypeError:  # takes no mask, or no keywords
        return model(batch["input_ids"])


def _counted(model: Any, batch_size: int, seq_length: int, otherwise: str, backward: bool = False) -> float:
    """FLOPs of one pass. It leaves the model's mode, gradients and random numbers as they were."""
    try:
        import torch

        from ._count import Counted
    except ImportError as error:
        _once("missing", f"{error.name or 'torch'} not available, {otherwise}")
        return 0.0
    try:
        training, gradients = bool(getattr(model, "training", False)), None
        counted = Counted(modules=False)
        try:
            model.eval()
            if backward:
                gradients = [(weight, weight.grad) for weight in model.parameters()]
                for weight, _ in gradients:
                    weight.grad = None
            with torch.random.fork_rng(), counted:
                if counted.problem:
                    _once("missing", f"operators' counter not available, {otherwise}: {counted.problem}")
                    return 0.0
                with torch.set_grad_enabled(backward):
                    result = _run(model, batch_size, seq_length)
                    if backward:
                        _first_tensor(result).float().sum().backward()
        finally:
            model.train(training)
            for weight, gradient in gradients or ():
                weight.grad = gradient
        return float(counted.model_flop or 0)
    except Exception as error:
        let_through(error)
        _once(f"count {type(error).__name__}", f"nothing was counted: {type(error).__name__}: {said(error)}; {otherwise}")
        return 0.0


def _first_tensor(result: Any) -> Any:
    for name in ("logits", "last_hidden_state"):
        if getattr(result, name, None) is not None:
            return getattr(result, name)
    if isinstance(result, Mapping):
        return next(iter(result.values()))
    return result[0] if isinstance(result, (tuple, list)) else result


_forwards: "weakref.WeakKeyDictionary[Any, Dict[Tuple[int, int, bool], float]]" = weakref.WeakKeyDictionary()


def _counted_once(model: Any, batch_size: int, seq_length: int, backward: bool = False) -> float:
    """Like _counted(), but each shape of a model is counted only once, because it runs the same operators each time."""
    known = _forwards.setdefault(model, {})
    shape = (batch_size, seq_length, backward)
    if shape not in known:
        known[shape] = _counted(model, batch_size, seq_length, "0 is returned", backward)
    return known[shape]


def _measure_flops_with_profiler(model: Any, batch_size: int, seq_length: int) -> float:
    """FLOPs of a forward pass, as the document measures them. The operators are counted once per shape."""
    try:
        return _counted_once(model, batch_size, seq_length)
    except Exception as error:
        let_through(error)
        _once("measure", f"nothing was counted: {said(error)}; 0 is returned")
        return 0.0


def calculate_mfu_with_profiler(model: Any, batch_size: int, seq_length: int, step_time: float) -> float:
    """Counted FLOPs of a forward pass / time of a step / get_gpu_peak_flops(), from 0 to 1. 0 if nothing is counted."""
    try:
        flop = _measure_flops_with_profiler(model, batch_size, seq_length)
        if flop <= 0:
            _once("unmeasured", "calculate_mfu_with_profiler: no FLOPs could be counted, 0 is returned")
            return 0.0
        if not (step_time > 0 and math.isfinite(step_time)):
            _once("time", f"calculate_mfu_with_profiler: a step of {short(step_time)} s: give its seconds, above 0; 0 is returned")
            return 0.0
        used = _core.of_peak(flop / step_time, get_gpu_peak_flops())
        _once("forward", f"calculate_mfu_with_profiler counts a forward pass only and ends at 1, as documented: {used:.4g} here. A training step needs about three "
                         f"times that ({3 * used:.4g}); mfu.Monitor counts what really ran")
        if used > 1:  # said each time, because the returned number is not the true one
            tell(f"mfu.compat: calculate_mfu_with_profiler gives 1 where {used:.4g} was computed: {flop:.4g} FLOP in {short(step_time)} s of "
                 f"{get_gpu_peak_flops():.4g} FLOP/s; the peak or the time of the step is suspect")
        return min(used, 1.0)
    except Exception as error:
        let_through(error)
        _once("profiler", f"calculate_mfu_with_profiler: {type(error).__name__}: {said(error)}; 0 is returned")
        return 0.0


def _estimated(model: Any, batch_size: int, seq_length: int) -> float:
    """FLOPs of a training step: exact if we know the model's config, else 6 x parameters x tokens."""
    from ._errors import Error
    from ._need import flops

    try:
        return float(flops(model, batch=batch_size, seq=seq_length).model_flop or 0)
    except Error:
        return 6.0 * _parameters(model) * batch_size * seq_length


@dataclasses.dataclass
class _Smart:
    factors: Dict[int, Tuple[float, int]] = dataclasses.field(default_factory=dict)  # by length: measured / estimated, and when
    calls: int = 0


_smart: "weakref.WeakKeyDictionary[Any, _Smart]" = weakref.WeakKeyDictionary()
_RECALIBRATION = 1000


def _smart_flop(model: Any, batch_size: int, seq_length: int) -> float:
    state = _smart.setdefault(model, _Smart())
    state.calls += 1
    estimate = _estimated(model, batch_size, seq_length)
    factor, made = state.factors.get(seq_length, (0.0, -_RECALIBRATION))
    if state.calls - made >= _RECALIBRATION and estimate > 0:
        measured = _counted(model, batch_size, seq_length, "the estimate is taken as it is", backward=True)
        factor = measured / estimate if measured else 1.0
        if len(state.factors) < 1024:
            state.factors[seq_length] = (factor, state.calls)
    return factor * estimate


def calculate_precise_mfu(model: Any, batch_size: int, seq_length: int, step_time: float, measurement_mode: str = "smart",
                          actual_flops: Optional[float] = None) -> float:
    """MFU of a training step as a fraction: by `actual_flops`, else by mode (smart, profiler, estimate, hybrid)."""
    try:
        if actual_flops is not None:
            flop = float(actual_flops)
        elif measurement_mode == "estimate":
            flop = _estimated(model, batch_size, seq_length)
        elif measurement_mode == "smart":
            flop = _smart_flop(model, batch_size, seq_length)
        else:
            if measurement_mode == "hybrid":
                _once("hybrid", "hybrid mode: a single call has no hardware counters to ask, counted operators gave the number; mfu.Monitor(mode='hybrid') samples them")
            elif measurement_mode != "profiler":
                _once("mode", f"measurement_mode {measurement_mode!r}: smart, profiler, estimate or hybrid was expected; profiler is taken")
            flop = _counted_once(model, batch_size, seq_length, backward=True) or _estimated(model, batch_size, seq_length)
        return calculate_mfu(flops=flop, compute_time=step_time, gpu_peak_flops=get_gpu_peak_flops())
    except Exception as error:
        let_through(error)
        _once("precise", f"calculate_precise_mfu: {type(error).__name__}: {said(error)}; 0 is returned")
        return 0.0


# Estimates without a profiler.

def _parameters(model: Any) -> int:
    return sum(int(weight.numel()) for weight in model.parameters())


def _get_visual_tokens(batch_example: Mapping[str, Any]) -> int:
    """Visual tokens per row of a batch: by image_grid_thw (patches, merged 2 x 2), else 576. 0 if it has no pictures."""
    grid = batch_example.get("image_grid_thw")
    if grid is not None:
        rows = grid.tolist() if hasattr(grid, "tolist") else list(grid)
        return sum(int(time_) * int(height) * int(width) // 4 for time_, height, width in rows) // max(1, _batch_size(batch_example))
    return _VISUAL_TOKENS if batch_example.get("pixel_values") is not None else 0


def _batch_size(batch_example: Mapping[str, Any]) -> int:
    for name in ("input_ids", "attention_mask", "labels"):
        if batch_example.get(name) is not None:
            return len(batch_example[name])
    return 1


def _get_actual_sequence_length(batch_example: Mapping[str, Any]) -> float:
    """Mean length of the rows: by attention_mask (with visual tokens), else by input_ids, else visual tokens alone."""
    mask = batch_example.get("attention_mask")
    if mask is not None:
        if _masks.on_device(mask):
            mask = mask.cpu()
        return float(_masks.sums(mask)[1]) / max(1, len(mask))
    ids = batch_example.get("input_ids")
    visual = _get_visual_tokens(batch_example)
    if ids is None:
        return float(visual)
    width = int(ids.shape[1]) if hasattr(ids, "shape") else max(len(row) for row in ids)
    return float(width if width > visual else width + visual)  # a row that is wider includes the placeholders of its pictures


def _estimate_forward_flops(model: Any, batch_example: Mapping[str, Any], coefficient: float = 2.5) -> float:
    """coefficient x parameters x batch x length."""
    return coefficient * _parameters(model) * _batch_size(batch_example) * _get_actual_sequence_length(batch_example)


def _estimate_flops_fallback(model: Any, batch_example: Mapping[str, Any], coefficient: float = 2.5) -> float:
    """FLOPs of forward, plus twice that for backward. If even this fails: 0.0, with a warning that says why."""
    try:
        return 3 * _estimate_forward_flops(model, batch_example, coefficient)
    except Exception as error:
        let_through(error)
        _once("estimate", f"no FLOPs can be estimated: {type(error).__name__}: {said(error)}; 0 is returned")
        return 0.0


def profile_model_flops(model: Any, batch_example: Dict[str, Any]) -> float:
    """FLOPs by the documented formula (forward: 2.5 x parameters x tokens, then backward). mfu.flops() is exact."""
    flop = _estimate_flops_fallback(model, batch_example)
    if flop and "exact" not in _said:
        try:
            exact = _estimated(model, _batch_size(batch_example), max(1, round(_get_actual_sequence_length(batch_example))))
            _once("exact", f"profile_model_flops is the documented estimate: {flop:.4g}; mfu.flops(model, …) says {exact:.4g} for this batch, exactly where it knows the model")
        except Exception:
            _said.add("exact")
    return flop


# The monitor.

class TrainingMonitor:
    """The documented monitor: JSON Lines in output_dir/log_file, and perf/… in Weights & Biases if the process has a run.

    On every flops_profile_freq-th step, MFU is calculate_mfu_with_profiler's. On others it is 0, or left out if the config
    says `monitoring.unmeasured: absent`. `monitor` is the mfu.Monitor behind it; used alone, that counts what really ran.
    """

    def __init__(self, output_dir: "Union[str, os.PathLike[str]]", config: Config = None, log_file: str = "training_log.json", flops_profile_freq: int = 500) -> None:
        self.output_dir, self.config, self.log_file = output_dir, config, log_file
        self.model_ref: Any = None
        self.batch_size: Optional[int] = None
        self.seq_length: Optional[int] = None  # of steps without a mask
        self.step_start_time: Optional[float] = time.perf_counter()
        settings = _core.read_settings(config)
        chosen = settings.get("performance_monitoring.measure_flops_frequency") or settings.get("flops_profile_freq") or settings.get("freq.flops_profile_freq")
        self.flops_profile_freq = int(chosen) if chosen is not None and flops_profile_freq == 500 else flops_profile_freq
        self._mode = settings.get("mfu_calculation_mode")  # None: measure as the document does
        self._own: Dict[str, Any] = {"mode": self._mode or "profiler", "output_dir": output_dir, "log_file": log_file, "flops_profile_freq": self.flops_profile_freq,
                                     "unmeasured": settings.get("unmeasured", "zero")}
        if "peak" not in settings and "device" not in settings:
            self._own["peak"] = get_gpu_peak_flops()
        self._monitor: Optional[Monitor] = None

    @property
    def monitor(self) -> Monitor:
        """The mfu.Monitor. It is opened at the first step, when the model is known."""
        if self._monitor is None:
            model = self.model_ref if getattr(self.model_ref, "config", None) is not None else None
            self._monitor = Monitor(self.config, model=model, **self._own)
        return self._monitor

    def set_model_ref(self, model: Any) -> None:
        self.model_ref = model

    def log_step(self, step: int, epoch: int, loss: float, grad_norm: float, learning_rate: float, attention_mask: Any = None, skip_wandb: bool = False, **more: Any) -> None:
        now = time.perf_counter()
        seconds, self.step_start_time = now - (self.step_start_time or now), now
        given: Dict[str, Any] = {}
        try:
            if attention_mask is None and self.batch_size and self.seq_length:
                given = {"batch": self.batch_size, "seq": self.seq_length}
            elif self.batch_size:
                given = {"samples": self.batch_size}
            if self._mode is not None:
                if self.monitor.measurement_due(step):
                    given["counted_flop"] = self._count(attention_mask)
            elif self.flops_profile_freq and step % self.flops_profile_freq == 0:
                given["counted_flop"] = self._measure(step, attention_mask, seconds)
            elif self._own["unmeasured"] == "zero":
                _once("unmeasured step", "perf/mfu is 0 on steps that are not measured, as documented (monitoring.unmeasured: absent leaves it out); "
                                         "with mfu_calculation_mode: smart every step has its MFU")
        except Exception as error:
            let_through(error)
            _once("log_step", f"TrainingMonitor.log_step: {type(error).__name__}: {said(error)}; MFU is 0 on such steps")
        if given.get("counted_flop") == 0:
            del given["counted_flop"]
        self.monitor.log_step(step, epoch, loss, grad_norm, learning_rate, attention_mask, skip_wandb, **{"duration_s": seconds, **given, **more})

    def _shape(self, mask: Any) -> Tuple[int, int]:
        length = round(_get_actual_sequence_length({"attention_mask": mask})) if mask is not None else self.seq_length or 0
        return self.batch_size or (len(mask) if mask is not None else 0), length

    def _count(self, mask: Any) -> int:
        """FLOPs of forward and backward for the modes that calibrate with them. It counts padded rows, as they run."""
        if self.model_ref is None:
            _once("model", "TrainingMonitor has no model: call set_model_ref(model); MFU is estimated where a config names one")
            return 0
        batch, length = self._shape(mask)
        width = int(mask.shape[1]) if hasattr(mask, "shape") and len(mask.shape) == 2 else length
        return int(_counted_once(self.model_ref, batch, width, backward=True))

    def _measure(self, step: int, mask: Any, seconds: float) -> int:
        if self.model_ref is None:
            _once("model", "TrainingMonitor has no model: call set_model_ref(model); MFU is 0")
            return 0
        batch, length = self._shape(mask)
        if not length or not batch:
            _once("length", "TrainingMonitor: no attention_mask, and no batch_size and seq_length set: MFU is 0")
            return 0
        used = calculate_mfu_with_profiler(self.model_ref, batch, length, seconds)
        print(f"🔍 步骤 {step}: 使用profiler计算MFU = {used:.4f}")
        return round(used * seconds * get_gpu_peak_flops())

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.close()

    def __enter__(self) -> "TrainingMonitor":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
