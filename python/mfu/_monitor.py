"""mfu.Monitor: the monitor of a training loop."""

import atexit
import collections
import json
import os
import time
import weakref
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Set, Tuple, Union

from . import _core, _masks
from ._answers import Answer
from ._background import Background
from ._errors import Error, InvalidArgument
from ._load import phases_at
from ._manners import let_through, said, short, tell
from ._need import Lora, ModelLike, _model, _trained
from ._settings import Config, is_set, model_json
from ._step import Step

_CLOSE_SECONDS = 10.0  # close() returns after this, whatever hangs
_DEVICE_SECONDS = 3.0  # of these, to wait for numbers that are still on a device
_ARGUMENTS: Dict[str, str] = dict(_core.step_arguments())  # log_step's arguments, each with its kind
# Kinds of arguments that are checked here. Whole numbers must be below 2^bits.
_BITS = {"number": 0, "rows": 31, "count": 63, "flop": 128}
_POSITIONAL = list(_ARGUMENTS)[: list(_ARGUMENTS).index("skip_wandb") + 1]


class Monitor:
    """A training loop's monitor: MFU to the log, TensorBoard, Weights & Biases and the rest.

        with mfu.Monitor(model=model, device="auto", dtype="bf16", output_dir="outputs") as monitor:
            for step, batch in enumerate(loader):
                with monitor.step(step, attention_mask=batch["attention_mask"]) as at:   # counts operators when due
                    loss = train(batch)
                    at.loss = loss
        # or, if nothing is to be counted:
                monitor.log_step(step, loss=loss, batch=8, seq=4096)

    config          a YAML file, or a dict of the same keys (docs/monitor.md). A wrong setting gives a warning; the
                    others are used
    model           for estimates: a transformers model or config, a path or a dict. For generation, flop_per_token
                    is enough
    mode            estimate, profiler, smart (default) or hybrid
    device, dtype, peak, devices   the peak that MFU is a fraction of; device="auto" asks the machine
    output_dir      folder for the log and for mfu-run, the run directory. mfu export writes every step from it, even
                    after kill -9
    run_dir         another place for the run directory; False: none
    tensorboard, csv, jsonl, prometheus, console   other places that steps are written to
    wandb           None: log into this process's W&B run, if it has one. True or a project's name: open a new run.
                    False: do not log
    lora, frozen    what is trained, as in mfu.flops: a rank or (rank, targets), and patterns of weight names. They
                    also apply to a model that the config names
    batch, seq      of a step for which log_step gets none
    rank            of this process (default: what torch.distributed says, else RANK)

    Every other keyword is a setting by the last part of its name: mfu_calculation_freq=5, unmeasured="zero". Nothing
    here raises into the loop, blocks it or waits for a device. A wrong value is left out, with one warning. Ctrl-C, and
    exceptions of the program's own signal handlers, reach the program. docs/reliability.md has all promises.
    """

    def __init__(
        self,
        config: Config = None,
        *,
        model: Optional[ModelLike] = None,
        mode: Optional[str] = None,
        device: Optional[str] = None,
        dtype: Optional[str] = None,
        peak: Optional[float] = None,
        devices: Optional[int] = None,
        output_dir: "Union[str, os.PathLike[str], None]" = None,
        run_dir: "Union[str, os.PathLike[str], bool, None]" = None,
        flop_per_token: Optional[float] = None,
        frozen: Union[str, Sequence[str]] = (),
        lora: Lora = None,
        recompute: str = "none",
        batch: int = 0,
        seq: int = 0,
        rank: Optional[int] = None,
        wandb: Union[bool, str, None] = None,
        queue_capacity: int = 4096,
        **settings: Any,
    ) -> None:
        self._said: Set[str] = set()
        self._own: List[str] = []
        self._unread: Deque[_masks.Later] = collections.deque()  # on devices that cannot be asked: waited for later
        self._closed, self._pid = False, os.getpid()
        self._background: Optional[Background] = None
        self._step_ended: Optional[float] = None  # end of the last block of step()
        keywords: Dict[str, Any] = {
            "mfu_calculation_mode": mode,
            "device": device,
            "dtype": dtype,
            "peak": peak,
            "devices": devices,
            "output_dir": output_dir,
            "run_dir": run_dir,
            **settings,
        }
        from ._ranks import own_device, rank_of

        self.rank: Optional[int] = rank if rank is not None else rank_of()
        options: Dict[str, Any] = {
            "flop_per_token": flop_per_token,
            "rank": self.rank,
            "recompute": recompute,
            "queue_capacity": queue_capacity,
            "own_device": own_device(),
            "hold_reports": wandb is not False and not self.rank,
            "phases_at": phases_at(),
        }
        try:
            options["lora"], options["frozen"] = _trained(lora, frozen)
        except (Error, TypeError, ValueError) as error:
            self._warn(f"lora and frozen are left out: {error}")
        if model is not None:
            try:
                known = _model(model)
                options.update(spec=known._spec, model_json=model_json(known))
            except (Error, OSError, TypeError, ValueError) as error:
                self._warn(f"no FLOPs can be estimated: {error}")
        self._core = _core.Monitor(keywords, config, options)
        for problem in self._core.problems:
            self._warn(problem)
        self.settings: Dict[str, str] = self._core.settings
        self._shape = [batch, batch * seq, batch * seq * seq, 0, 0]
        self._weakly = weakref.ref(self)
        # Native functions hide the methods of the class, which are there for readers and type checkers.
        native = self._core.log_step_function(self._core, self._weakly, self._shape)
        self.log_step = native  # type: ignore[method-assign]
        self.count_tokens = self._core.count_tokens_function(self._core, self._weakly)  # type: ignore[method-assign]
        self._due = self._core.measurement_due
        self._wandb = False if is_set(self.settings.get("skip_wandb"), True) else wandb
        _open.add(self)
        self._start_background()
        self._say()

    def log_step(
        self,
        step: int,
        epoch: Optional[float] = None,
        loss: Any = None,
        grad_norm: Any = None,
        learning_rate: Any = None,
        attention_mask: Any = None,
        skip_wandb: bool = False,
        *,
        duration_s: Optional[float] = None,
        batch: Optional[int] = None,
        seq: Optional[int] = None,
        tokens: Optional[int] = None,
        squares: Optional[int] = None,
        padded_to: Optional[int] = None,
        samples: Optional[int] = None,
        images: Optional[int] = None,
        counted_flop: Optional[int] = None,
        lengths: Optional[Sequence[int]] = None,
        step_seconds: Optional[float] = None,
    ) -> None:
        """Logs a step that has just ended. Everything except its number may be left out.

        loss, grad_norm   numbers or tensors. A later call reads a tensor on a device, once its value has arrived
        attention_mask    one row per sequence. The length of each row counts; the mask is summed on its device
        batch and seq, lengths=[…], or tokens (with squares, the sum of squared lengths) instead of a mask
        padded_to         length that the rows were padded to, if there is no mask
        duration_s        time of the step (default: the time since the last call). step_seconds means the same
        counted_flop      FLOPs of this step, if you counted them (see also step())
        """

    def count_tokens(self, tokens: int) -> None:
        """Counts generated tokens. Any thread may call it."""

    def count_prefill(self, lengths: Sequence[int]) -> None:
        """Counts prompts of these lengths that went into the cache. FLOPs of prompts and of new tokens are then
        counted separately."""
        try:
            rows, tokens, squares, _ = _masks.row_sums(list(lengths))
            self._core.count_prefill(rows, tokens, squares)
        except Exception as error:
            self._left_out(
                error,
                f"count_prefill: {said(error)}: lengths of prompts were expected; they are left out",
                "count_prefill",
            )

    def count_decode(self, sequences: int, context: int) -> None:
        """Counts one decode step: a new token for each of `sequences`, which have `context` tokens in total."""
        try:
            self._core.count_decode(sequences, context)
        except Exception as error:
            self._left_out(
                error,
                f"count_decode({short(sequences)}, {short(context)}): two whole numbers were expected; the step is"
                " left out",
                "count_decode",
            )

    def set_phase(self, phase: str) -> None:
        """Sets the phase: warmup, main or finetune. It decides how often FLOPs are measured."""
        try:
            self._core.set_phase(phase)
        except Exception as error:
            self._left_out(error, f"set_phase: {said(error)}", "set_phase")

    def measurement_due(self, step: int) -> bool:
        """Whether this rank should count the FLOPs of this step. With torch.distributed, rank 0 counts for all."""
        try:
            return (not self.rank or not self._shares()) and self._due(step)
        except Exception as error:
            let_through(error)
            return False

    def add_reading(
        self,
        step: int,
        flop: int,
        *,
        attention_flop: Optional[int] = None,
        batch: int = 0,
        seq: int = 0,
        lengths: Optional[Sequence[int]] = None,
        tokens: int = 0,
        squares: int = 0,
        padded_to: int = 0,
        images: int = 0,
    ) -> None:
        """Adds the counted FLOPs of a step of that shape. Call it before the step is logged."""
        try:
            if lengths is not None:
                batch, tokens, squares, _ = _masks.row_sums(list(lengths))
            elif seq and not tokens:
                batch = batch or 1
                tokens, squares = batch * seq, batch * seq * seq
            shape = [batch, tokens, squares, padded_to, images] if tokens or batch else self._shape
            self._core.add_reading(step, shape, flop, attention_flop)
            if self._background is not None:
                self._background.reading(step, shape, flop)
        except Exception as error:
            self._left_out(
                error,
                f"add_reading: step {short(step)} with {short(flop)} FLOP is left out: {said(error)}",
                "add_reading",
            )

    def step(self, step: int, **fields: Any) -> "Step":
        """A step as a `with` block. It is timed and logged at its end, and its operators are counted when that is
        due. `fields` are the arguments of log_step."""
        return Step(self, step, fields)

    def last_report(self) -> Optional[Answer]:
        """The newest report, with the keys of a line of the log. None if there is none yet."""
        line = self._core.last_report()
        return None if line is None else Answer(json.loads(line, object_hook=Answer))

    @property
    def calibration(self) -> Answer:
        return Answer(self._core.calibration())

    @property
    def warnings(self) -> List[str]:
        """All warnings so far, each once."""
        return [*self._own, *self._core.warnings()]

    def status(self) -> Answer:
        """logged, dropped (a full queue), reported, unsent (lost by sinks), run_directory."""
        found = Answer(self._core.status())
        if self._background is not None:
            found["unsent"] += self._background.unsent()
        return found

    def flush(self, seconds: float = 10) -> bool:
        """Waits until every sink has been offered what was logged so far. Do not call it in a loop."""
        if self._pid != os.getpid():
            return False
        try:
            deadline = time.monotonic() + float(seconds)
        except Exception as error:
            self._left_out(
                error, f"flush({short(seconds)}): a number of seconds was expected; it waits for up to 10", "flush"
            )
            deadline = time.monotonic() + 10
        self._await_device(deadline)
        done = self._core.flush(max(0.0, deadline - time.monotonic()))
        if self._background is not None:
            done = self._background.flush(max(0.0, deadline - time.monotonic())) and done
        self._say()
        return bool(done)

    def close(self) -> None:
        """Sends everything to the sinks, within 10 seconds. A sink that hangs is left alone. Later steps are ignored.
        """
        if self._closed:
            return
        self._closed = True
        _open.discard(self)
        if self._pid != os.getpid():
            return
        deadline = time.monotonic() + _CLOSE_SECONDS
        self._await_device(deadline - _CLOSE_SECONDS + _DEVICE_SECONDS)
        self._core.close(max(0.0, deadline - time.monotonic()))
        self.log_step = self.count_tokens = _ignore  # type: ignore[method-assign]
        if self._background is not None:
            self._background.close(deadline)
        self._say()

    def _await_device(self, deadline: float) -> None:
        while self._core.take_arrived(self._weakly) and time.monotonic() < deadline:
            if self._background is not None:
                self._background.hurry()
            time.sleep(0.001)

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"mfu.Monitor({self.settings}, logged={self.status()['logged']})"

    # Arguments that are not plain numbers.

    def _made_plain(self, *positional: Any, **named: Any) -> Optional[Dict[str, Any]]:
        """log_step's arguments as plain numbers, with the `sums` of a mask. A number that is still on a device is a
        _masks.Later. None if the step cannot be logged."""
        try:
            return self._cleaned(_bound(positional, named, self._warn))
        except Exception as error:
            self._left_out(error, f"log_step: the step is left out: {said(error)}", f"log_step {type(error).__name__}")
            return None

    def _count_slowly(self, *positional: Any, **named: Any) -> None:
        try:
            (tokens,) = positional or (named.pop("tokens"),)
            if named or isinstance(tokens, bool):
                raise TypeError("one whole number was expected")
            count = int(tokens) if isinstance(tokens, float) and tokens.is_integer() else tokens.__index__()
            if not 0 <= count < 2**63:
                raise ValueError("a number from 0 on was expected")
            self.count_tokens(count)
        except Exception as error:
            self._left_out(
                error,
                f"count_tokens({', '.join(map(short, positional))}): a whole number from 0 on was expected; it is"
                " left out",
                "count_tokens",
            )

    def _cleaned(self, given: Dict[str, Any]) -> Dict[str, Any]:
        step = given["step"]
        if isinstance(step, bool) or not hasattr(step, "__index__") or not 0 <= step.__index__() < 2**63:
            raise InvalidArgument(f"step={short(step)}: a whole number from 0 on was expected")
        plain: Dict[str, Any] = {"step": step.__index__()}
        if given.get("skip_wandb") and self._background is not None:
            self._background.skip(plain["step"])
        for name, kind in _ARGUMENTS.items():
            if given.get(name) is not None and kind in _BITS:
                value = self._clean(name, kind, given[name], plain["step"])
                if value is not None:
                    plain[name] = value
        mask, lengths = given.get("attention_mask"), given.get("lengths")
        try:
            if mask is not None:
                plain["sums"] = _masks.sums(mask)
            elif lengths is not None:
                plain["sums"] = _masks.row_sums(
                    lengths.tolist() if hasattr(lengths, "tolist") else list(lengths), plain.get("padded_to", 0)
                )
        except Exception as error:
            self._left_out(
                error,
                f"step {plain['step']}: its attention_mask or lengths cannot be used: {said(error)}; tokens a second"
                " and MFU are left out",
                "mask",
            )
        unread = [value for value in plain.values() if getattr(value, "unread", False)]
        if unread and self._background is not None:
            self._unread.extend(unread)
            self._background.hurry()
        return plain

    def _clean(self, name: str, kind: str, value: Any, step: int) -> Any:
        try:
            if kind == "number":
                return _masks.number(value)
            if (
                isinstance(value, bool)
                or not hasattr(value, "__index__")
                or not 0 <= value.__index__() < 2 ** _BITS[kind]
            ):
                raise ValueError("a whole number from 0 on was expected")
            return value.__index__()
        except Exception as error:
            self._left_out(error, f"step {step}: {name}={short(value)}: {said(error)}; it is left out", name)
            return None

    def _arrived(self, late: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """The numbers of a step that have arrived from a device, without those that failed. None if they have not."""
        arrived: Dict[str, Any] = {}
        for name, value in late.items():
            try:
                if not value.ready():
                    return None
                arrived[name] = value.value()
            except Exception as error:
                self._left_out(error, f"{name}: {said(error)}; it is left out", f"late {name}")
        return arrived

    def _behind(self, steps: int) -> None:
        self._warn(f"a device is more than {steps} steps behind: what it has not computed is left out", "behind")

    def _read_unread(self) -> None:
        """Called by the background thread, which may wait for a device."""
        while self._unread:
            self._unread.popleft().read()

    # Warnings.

    def _left_out(self, error: Exception, message: str, kind: str) -> None:
        let_through(error)
        self._warn(message, kind)

    def _warn(self, message: str, kind: str = "") -> None:
        if (kind or message) not in self._said:
            self._said.add(kind or message)
            self._own.append(message)
            tell(f"mfu: {message}")

    def _say(self) -> None:
        for message in self._core.warnings():
            if message not in self._said:
                self._said.add(message)
                tell(f"mfu: {message}")

    def _notice(self, step: int) -> None:
        self._say()
        if self._background is not None:
            self._background.before_step(step)

    def _shares(self) -> bool:
        return self._background is not None and self._background.shares()

    def _start_background(self) -> None:
        if not is_set(self.settings.get("enable_mfu_tracking"), False):
            self._background = Background(self, self._wandb)


_open: "weakref.WeakSet[Monitor]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for monitor in list(_open):
        monitor.close()


def _ignore(*positional: Any, **named: Any) -> None:
    """The log_step of a closed monitor: does nothing."""


def _bound(positional: Tuple[Any, ...], named: Dict[str, Any], warn: Callable[[str], None]) -> Dict[str, Any]:
    if len(positional) > len(_POSITIONAL):
        raise TypeError(
            f"{len(positional)} arguments by position: {', '.join(_POSITIONAL)} were expected, the rest by name"
        )
    given = dict(zip(_POSITIONAL, positional))
    for name, value in named.items():
        kind = _ARGUMENTS.get(name)
        if kind is None:
            warn(f"log_step has no argument {short(name)}, so it is left out. It has {', '.join(sorted(_ARGUMENTS))}")
            continue
        name = kind if kind in _ARGUMENTS and kind != "step" else name  # step_seconds is an older name of duration_s
        if name in given:
            raise TypeError(f"{name} is given twice")
        given[name] = value
    if "step" not in given:
        raise TypeError("the number of the step is missing")
    return given
