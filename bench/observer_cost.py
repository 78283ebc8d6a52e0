"""What observing costs: a training step with the observer on and off, interleaved in one process, beside torch's own ways to count.

    python bench/observer_cost.py [--rounds 40]

Times are CPU time of the thread (the machine may be busy) of one compute thread; on/off alternate step by step in blocks, and off/off is the noise of
the same run. Intervals are 95 % by bootstrap over rounds. A mode that is not installed is left out and said.
"""

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "python" / "observer")]

import torch  # noqa: E402
from models import Gpt, gpt_step  # noqa: E402


def cpu_time(function, steps):
    start = time.thread_time_ns()
    for _ in range(steps):
        function()
    return (time.thread_time_ns() - start) / steps


def interval(ratios, rounds=2000):
    """Median of the ratios and its 95 % bootstrap interval, in percent above 1."""
    random.seed(0)
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return tuple(100 * (value - 1) for value in (statistics.median(ratios), medians[rounds // 40], medians[-rounds // 40]))


def off_on(step, on, steps, rounds):
    """(off/off, on/off): each round measures off, on, off, so that drift cancels."""
    noise, effect = [], []
    for _ in range(rounds):
        first, middle, last = cpu_time(step, steps), cpu_time(lambda: on(step), steps), cpu_time(step, steps)
        noise.append(last / first)
        effect.append(2 * middle / (first + last))
    return interval(noise), interval(effect)


def observed(observer):
    def run(step):
        observer.start(region_folder="")
        try:
            step()
        finally:
            observer.stop()

    return run


def flop_counter(step):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False):
        step()


def profiled(step):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, with_flops=True):
        step()


def tracked():
    """mfu-tracker from PyPI, if it is there."""
    try:
        import mfu_tracker  # noqa: F401
    except ImportError:
        return None
    return mfu_tracker


def per_operator(observer, rounds):
    """Nanoseconds an operator, by the smallest matmul there is."""
    a, out = torch.ones(2, 2), torch.empty(2, 2)

    def loop():
        for _ in range(2000):
            torch.mm(a, a, out=out)

    with torch.no_grad():
        # Compared within a round: on, off.
        differences = []
        for _ in range(rounds):
            observer.start(region_folder="")
            on = cpu_time(loop, 1) / 2000
            observer.stop()
            off = cpu_time(loop, 1) / 2000
            differences.append(on - off)
    return statistics.median(differences)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    before = per_plain()
    from mfu import _observer

    _observer.start(region_folder="")
    _observer.stop()
    after = per_plain()
    print(f"registered and off: {after - before:+.0f} ns an operator")
    print(f"on: {per_operator(_observer, arguments.rounds):+.0f} ns more")
    sizes = {"tiny": (dict(layers=1, width=64, heads=2, vocabulary=256), 4, 32, 10), "50 ms": (dict(layers=2, width=256, heads=8, vocabulary=1024), 4, 32, 3)}
    ways = {"observer": observed(_observer), "FlopCounterMode": flop_counter, "torch.profiler with_flops": profiled}
    if tracked() is None:
        print("mfu-tracker is not installed: pip install mfu-tracker")
    print(f"{'step':8} {'off, ms':>8} {'way':28} {'noise (off/off)':>26} {'cost (on/off)':>26}")
    for name, (shape, batch, length, steps) in sizes.items():
        model = Gpt(**shape)

        def step():
            gpt_step(model, batch, length, shape["vocabulary"])

        cpu_time(step, 10)
        base = cpu_time(step, steps) / 1e6
        for way, on in ways.items():
            rounds = arguments.rounds if way == "observer" else max(3, arguments.rounds // 8)
            noise, cost = off_on(step, on, steps, rounds)
            show = lambda value: f"{value[0]:+.2f} % [{value[1]:+.2f}, {value[2]:+.2f}]"  # noqa: E731
            print(f"{name:8} {base:8.2f} {way:28} {show(noise):>26} {show(cost):>26}", flush=True)


def per_plain():
    """Before anything is registered, and after."""
    a, out = torch.ones(2, 2), torch.empty(2, 2)

    def loop():
        for _ in range(2000):
            torch.mm(a, a, out=out)

    with torch.no_grad():
        return min(cpu_time(loop, 1) / 2000 for _ in range(15))


main()
