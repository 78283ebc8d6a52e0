"""The monitor's Python threads: one for the other ranks and for devices that cannot be asked, and one for Weights &
Biases, which may hang without holding up the first."""

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Callable, List, Optional, Union

from ._manners import said

if TYPE_CHECKING:
    from ._monitor import Monitor


class Background:
    """The threads of one monitor. They end when the monitor does."""

    def __init__(self, monitor: "Monitor", wandb: Union[bool, str, None]) -> None:
        from ._ranks import Ranks
        from ._wandb import WandbSink

        self._monitor = weakref.ref(monitor)
        self._core = monitor._core
        mode = monitor.settings.get("mfu_calculation_mode", "smart")
        self._sink = None if wandb is False or monitor.rank else WandbSink(wandb, dict(monitor.settings))
        self._ranks = Ranks(monitor._core, monitor.rank, mode)
        self._pid = os.getpid()
        self._main = _Turns("mfu-monitor", self._once)
        self._feeds = None if self._sink is None else _Turns("mfu-wandb", self._feed, self._end_feed)

    def skip(self, step: int) -> None:
        if self._sink is not None:
            self._sink.skip(step)

    def unsent(self) -> int:
        return 0 if self._sink is None else self._sink.lost

    def shares(self) -> bool:
        return self._ranks.sharing

    def reading(self, step: int, shape: List[int], flop: int) -> None:
        self._ranks.measured(step, shape, flop)
        self._main.wake()

    def before_step(self, step: int) -> None:
        self._ranks.before_step(step)

    def hurry(self) -> None:
        self._main.wake()

    def _once(self) -> bool:
        monitor = self._monitor()
        if monitor is None:
            return False
        for work in (monitor._read_unread, self._ranks.exchange):
            try:
                work()
            except Exception as error:
                monitor._warn(f"{work.__qualname__}: {said(error)}", work.__qualname__)
        for message in self._ranks.take_messages():
            monitor._warn(message)
        return True

    def _feed(self) -> bool:
        monitor = self._monitor()
        if monitor is None or self._sink is None:
            return False
        self._sink.write(self._core.take_reports(), monitor._warn)
        return True

    def _end_feed(self) -> None:
        monitor = self._monitor()
        if monitor is not None and self._sink is not None:
            self._sink.close(monitor._warn)

    def flush(self, seconds: float) -> bool:
        if os.getpid() != self._pid:
            return False
        deadline = time.monotonic() + seconds
        return self._main.flush(deadline) and (self._feeds is None or self._feeds.flush(deadline))

    def close(self, deadline: float) -> None:
        """Ends both threads. A thread that hangs longer than the deadline is left alone."""
        if os.getpid() != self._pid:
            return
        for turns in (self._main, self._feeds):
            if turns is not None:
                turns.stop()
        for turns in (self._main, self._feeds):
            ended = turns is None or turns.join(deadline)
            monitor = self._monitor()
            if not ended and turns is self._feeds and monitor is not None:
                monitor._warn(
                    "Weights & Biases hangs and is left behind; mfu export has every step of a run directory",
                    "wandb hangs",
                )
        self._ranks.close()


class _Turns:
    """A thread that calls `work` every quarter of a second and whenever it is woken, until `work` returns False or the
    thread is stopped. Then it calls `end`."""

    def __init__(self, name: str, work: Callable[[], bool], end: Callable[[], None] = lambda: None) -> None:
        self._work, self._end = work, end
        self._woken, self._stop, self._taken = threading.Event(), False, 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        going = True
        while going and not self._stop:
            self._woken.wait(0.25)
            self._woken.clear()
            going = self._work()
            self._taken += 1
        if going:
            self._work()
            self._end()
        self._stop = True

    def wake(self) -> None:
        self._woken.set()

    def flush(self, deadline: float) -> bool:
        wanted = self._taken + 2  # one may be in progress
        while self._taken < wanted and not self._stop and time.monotonic() < deadline:
            self._woken.set()
            time.sleep(0.005)
        return self._taken >= wanted

    def stop(self) -> None:
        self._stop = True
        self._woken.set()

    def join(self, deadline: float) -> bool:
        """Waits until the deadline. Returns whether the thread has ended."""
        if self._thread is threading.current_thread():
            return True
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()
