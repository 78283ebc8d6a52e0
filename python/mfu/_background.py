"""The monitor's Python thread: Weights & Biases, the other ranks, what a device gives late. It holds nobody up."""

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, List, Optional, Union

if TYPE_CHECKING:
    from ._monitor import Monitor


class Background:
    """One a monitor; ends with it."""

    def __init__(self, monitor: "Monitor", wandb: Union[bool, str, None]) -> None:
        from ._ranks import Ranks
        from ._wandb import WandbSink

        self._monitor = weakref.ref(monitor)
        self._core = monitor._core
        self._wake, self._stop = threading.Event(), False
        self._pass = 0
        mode = monitor.settings.get("mfu_calculation_mode", "smart")
        self._sink = None if wandb is False or monitor.rank else WandbSink(wandb, dict(monitor.settings))
        self._ranks = Ranks(monitor._core, monitor.rank, mode)
        self._thread: Optional[threading.Thread] = threading.Thread(target=self._run, name="mfu-monitor", daemon=True)
        self._pid = os.getpid()
        self._thread.start()

    def skip(self, step: int) -> None:
        if self._sink is not None:
            self._sink.skip(step)

    def shares(self) -> bool:
        return self._ranks.sharing

    def reading(self, step: int, shape: List[int], flop: int) -> None:
        self._ranks.measured(step, shape, flop)
        self._wake.set()

    def before_step(self, step: int) -> None:
        self._ranks.before_step(step)

    def hurry(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        while not self._stop:
            self._wake.wait(0.25)
            self._wake.clear()
            self._once()

    def _once(self) -> None:
        monitor = self._monitor()
        if monitor is None:
            self._stop = True
            return
        for work in (monitor._pump, self._ranks.exchange, self._feed):
            try:
                work()
            except Exception as error:
                monitor._warn(f"{work.__qualname__}: {error}", work.__qualname__)
        for message in self._ranks.take_messages():
            monitor._warn(message)
        self._pass += 1

    def _feed(self) -> None:
        lines = self._core.take_reports()
        monitor = self._monitor()
        if self._sink is not None and monitor is not None:
            self._sink.write(lines, monitor._warn)

    def flush(self, seconds: float) -> bool:
        if os.getpid() != self._pid:
            return False
        wanted = self._pass + 2  # one may be half done
        deadline = time.monotonic() + seconds
        while self._pass < wanted and not self._stop and time.monotonic() < deadline:
            self._wake.set()
            time.sleep(0.005)
        return self._pass >= wanted

    def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None or os.getpid() != self._pid:
            return
        self._stop = True
        self._wake.set()
        if thread is not threading.current_thread():
            thread.join(5)
        self._once()
        monitor = self._monitor()
        if self._sink is not None and monitor is not None:
            self._sink.close(monitor._warn)
        self._ranks.close()
