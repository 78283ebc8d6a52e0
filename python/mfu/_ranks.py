"""Gives the other ranks what rank 0 measured, through torch.distributed's own store, on a background thread.

This needs no extra collective, and no rank waits: rank 0 sets a key, and the others check whether it is there. A rank
that no longer hears from rank 0 keeps its estimate or its last calibration, and warns.
"""

import importlib
import json
import os
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

_KEY = "measured"
_ALIVE = "alive"
_PATIENCE_S = float(os.environ.get("MFU_RANK_PATIENCE_S", "30"))


def _distributed() -> Optional[Any]:
    """torch.distributed if the program has initialised it. It does not import torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def rank_of() -> Optional[int]:
    """The rank of this process, from torch.distributed or from its launcher. None if it is alone."""
    try:
        distributed = _distributed()
        if distributed is not None:
            return int(distributed.get_rank())
        return int(os.environ["RANK"]) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else None
    except (KeyError, ValueError):
        return None


class Ranks:
    """Only the background thread may call exchange(); any thread may call the rest."""

    def __init__(self, core: Any, rank: Optional[int], mode: str) -> None:
        self._core, self._rank, self._mode = core, rank, mode
        self.sharing = _distributed() is not None
        self._store: Optional[Any] = None
        self._lock = threading.Lock()
        self._reading: Optional[Dict[str, Any]] = None  # the newest reading of rank 0
        self._calibrated: Tuple[int, int] = (-1, -1)
        self._sent = self._got = ""
        self._use: Optional[Dict[str, Any]] = None  # for the next step of this rank
        self._beat, self._heard = 0, (b"", time.monotonic())
        self._lost = False
        self._messages: List[str] = []

    def measured(self, step: int, shape: List[int], flop: int) -> None:
        if self._rank == 0:
            with self._lock:
                self._reading = {"step": step, "shape": list(shape), "flop": flop}

    def before_step(self, step: int) -> None:
        """Uses rank 0's count for this rank's step, if steps are counted and not calibrated. It is used only if the
        lengths were the same."""
        with self._lock:
            reading, self._use = self._use, None
        if reading is not None:
            self._core.add_reading(step, reading["shape"], reading["flop"], None, True)

    def take_messages(self) -> List[str]:
        messages, self._messages = self._messages, []
        return messages

    def exchange(self) -> None:
        if self._rank is None or self._lost:
            return
        try:
            store = self._open()
            if store is None:
                return
            if self._rank == 0:
                self._give(store)
            else:
                self._take(store)
        except Exception as error:
            self._lose(f"{type(error).__name__}")

    def _open(self) -> Optional[Any]:
        if self._store is not None:
            return self._store
        distributed = _distributed()
        if distributed is None:
            return None
        from torch.distributed import PrefixStore, distributed_c10d

        store = distributed_c10d._get_default_store()
        try:
            store = store.clone()  # a connection of our own, so that the program's is never in use
        except Exception:
            pass
        self._store = PrefixStore("mfu-monitor", store)
        self._heard = (b"", time.monotonic())
        self.sharing = True
        return self._store

    def _give(self, store: Any) -> None:
        calibration = self._core.calibration()
        with self._lock:
            message: Dict[str, Any] = {"reading": self._reading}
        if calibration["readings"]:
            message["calibration"] = calibration
        text = json.dumps(message)
        if text != self._sent and len(message) + bool(message["reading"]) > 1:
            store.set(_KEY, text)
            self._sent = text
        self._beat += 1
        store.set(_ALIVE, str(self._beat))

    def _take(self, store: Any) -> None:
        if store.check([_ALIVE]):
            beat = store.get(_ALIVE)
            if beat == b"end":
                self._lose("it has ended", expected=True)
                return
            if beat != self._heard[0]:
                self._heard = (beat, time.monotonic())
        if time.monotonic() - self._heard[1] > _PATIENCE_S:
            self._lose(f"nothing was heard of it for {_PATIENCE_S:g} s")
            return
        if store.check([_KEY]):
            text = store.get(_KEY).decode()
            if text != self._got:
                self._got = text
                self._accept(json.loads(text))

    def _accept(self, message: Dict[str, Any]) -> None:
        calibration = message.get("calibration")
        if calibration is not None and (calibration["step"], calibration["readings"]) != self._calibrated:
            self._calibrated = (calibration["step"], calibration["readings"])
            self._core.add_calibration(**calibration)
        if message.get("reading") is not None and self._mode in ("profiler", "hybrid"):
            with self._lock:
                self._use = message["reading"]
            self._core.wake()

    def _lose(self, why: str, expected: bool = False) -> None:
        """Goes on without rank 0."""
        self._lost = True
        if self._rank != 0 and not expected:
            kept = f"the calibration of step {self._calibrated[0]}" if self._calibrated[1] > 0 else "its estimate"
            self._messages.append(
                f"rank 0, which measures for all, is gone ({why}): rank {self._rank} goes on with {kept}"
            )

    def close(self) -> None:
        """Tells the other ranks that this end was intended."""
        if self._rank == 0 and self._store is not None and not self._lost:
            try:
                self._give(self._store)
                self._store.set(_ALIVE, "end")
            except Exception:
                pass
        self._lost = True


def own_device() -> Optional[Tuple[str, str, Optional[int], Optional[int]]]:
    """Name, architecture, units and memory of the GPU that this rank computes on. None before the program has used one.
    """
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return None
        from ._load import observer

        index = torch.cuda.current_device()
        local = int(os.environ.get("LOCAL_RANK") or 0)
        if index == 0 and local < torch.cuda.device_count():
            index = local  # set_device() is called later
        seen = importlib.import_module(observer().__name__ + ".traits").device_traits(index)
        return seen["name"], seen["architecture"] or "", seen["units"], seen["memory"]
    except Exception:  # if the device does not answer, its driver is asked
        return None
