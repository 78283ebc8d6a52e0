"""Measures what observing costs: a training step with the observer on and off by turns in one process, next to other
ways to count.

    PYTHONPATH=build/release/python .venv/bin/python bench/observer_cost.py [--rounds 200]
        [--only operators|steps|startup|callgrind] [--markdown]

There is one compute thread, and times are its CPU time, because the machine may be busy. A round is off, on, off, on,
off. on/off compares each `on` block with the two `off` blocks around it. off/off is computed in the same way from the
`off` blocks alone and shows the noise of the run. Starting and stopping are not timed. Intervals are 95 % by bootstrap
over rounds. `bound` is the upper end of on/off minus the median of off/off. On a busy machine the bound only shows the
noise. Then the line below it says more: operators counted per step × the cost of one (best of all rounds). Without
mfu-tracker (pip install mfu-tracker) its rows are left out, with a message.
"""

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import time

from interleaved import ROOT, as_text, cpu_ns, gpt_steps, lines, off_on, percents

BUILT = ROOT / "build" / "release"
sys.path[:0] = [str(BUILT / "python"), str(ROOT / "python")]


@contextlib.contextmanager
def observed():
    from mfu import _observer

    _observer.start(region_folder="")
    try:
        yield None
    finally:
        _observer.stop()


def each(context):
    """A counter that the program enters at each step, as its users do."""

    @contextlib.contextmanager
    def way(step):
        def work():
            with context():
                step()

        yield work

    return way


def flop_counter():
    from torch.utils.flop_counter import FlopCounterMode

    return FlopCounterMode(display=False)


def profiled():
    import torch

    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, with_flops=True)


def tracker(model):
    """mfu-tracker counts one step before training with FlopCounterMode. It times the other steps between two
    synchronisations of the GPU; without a GPU those do nothing."""
    from importlib.metadata import version

    import torch
    from mfu_tracker import param_bytes, track
    from mfu_tracker.gpu import GPUSpec

    torch.cuda.synchronize = lambda device=None: None
    spec = GPUSpec("none", (8, 0), 1, 1.0, 1.0, {"fp16": 1e12}, 1.0)
    size = param_bytes(model)
    return {
        f"mfu-tracker {version('mfu-tracker')}, counted step": each(flop_counter),
        f"mfu-tracker {version('mfu-tracker')}, timed step": each(lambda: track(1, size, spec=spec)),
    }


def counted_calls(step):
    from mfu import _observer

    with observed():
        before = _observer.totals().calls
        step()
        return _observer.totals().calls - before


def show_steps(rounds, line, operator_ns):
    line("step", "off, ms", "counted by", "off/off", "on/off", "bound")
    for name, model, step, times in gpt_steps():
        ways = {
            "nobody": lambda step: contextlib.nullcontext(),
            "mfu": lambda step: observed(),
            "FlopCounterMode": each(flop_counter),
            "torch.profiler with_flops": each(profiled),
        }
        try:
            ways |= tracker(model)
        except ImportError:
            print("mfu-tracker is not installed: pip install mfu-tracker", file=sys.stderr)
        with observed():  # registers once; the observer stays registered
            cpu_ns(step, 10)
        base = min(cpu_ns(step, times) for _ in range(10)) / 1e6
        for way, on in ways.items():
            quick = way in ("nobody", "mfu")
            noise, effect = off_on(
                step,
                lambda on=on, step=step: on(step),
                times if quick else 1,
                rounds if quick else max(5, rounds // 20),
            )
            noise, effect = percents(noise), percents(effect)
            line(name, f"{base:.2f}", way, as_text(noise), as_text(effect), f"{effect[2] - noise[0]:+.2f} %")
        calls = counted_calls(step)
        line(
            name,
            f"{base:.2f}",
            f"mfu, {calls} operators × {operator_ns:.0f} ns",
            "",
            f"{calls * operator_ns / base / 1e4:+.2f} %",
            "",
        )


def show_operators(rounds, line):
    """Nanoseconds of the smallest matmul with the observer never registered, registered but off, and on."""
    import torch

    a, out = torch.ones(2, 2), torch.empty(2, 2)
    times = 2000

    def loop():
        for _ in range(times):
            torch.mm(a, a, out=out)

    def taken():
        return cpu_ns(loop, 1) / times

    line("torch.mm of 2×2", "median", "best")
    with torch.no_grad():
        loop()
        never = [taken() for _ in range(rounds)]
        with observed():
            loop()
        off, on = [], []
        for _ in range(rounds):
            off.append(taken())
            with observed():
                on.append(taken())
    line("never registered", f"{statistics.median(never):.0f} ns", f"{min(never):.0f} ns")
    line(
        "registered and off, more",
        f"{statistics.median(off) - statistics.median(never):+.0f} ns",
        f"{min(off) - min(never):+.0f} ns",
    )
    line(
        "on, more than off",
        f"{statistics.median([y - x for x, y in zip(off, on)]):+.0f} ns",
        f"{min(on) - min(off):+.0f} ns",
    )
    return min(on) - min(never)


LOOP = """
import sys, torch
sys.path[:0] = {path!r}
torch.set_num_threads(1)
state, times = sys.argv[1], int(sys.argv[2])
if state != "never":
    from mfu import _observer
    _observer.start(region_folder="")
    if state == "off": _observer.stop()
a, out = torch.ones(2, 2), torch.empty(2, 2)
with torch.no_grad():
    for _ in range(times): torch.mm(a, a, out=out)
"""


def show_callgrind(line):
    """Instructions for each operator. Two lengths of the same loop are subtracted, so that start-up cancels. Takes
    minutes."""
    line("torch.mm of 2×2", "instructions")
    found = {}
    for state in ("never", "off", "on"):
        counts = []
        for times in (500, 3000):
            command = [
                "valgrind",
                "--tool=callgrind",
                "--callgrind-out-file=/dev/null",
                sys.executable,
                "-c",
                LOOP.format(path=sys.path[:3]),
                state,
                str(times),
            ]
            run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"})
            counts.append(int(re.search(r"Collected : (\d+)", run.stderr).group(1)))
        found[state] = (counts[1] - counts[0]) / 2500
    line("never registered", f"{found['never']:.0f}")
    line("registered and off, more", f"{found['off'] - found['never']:+.0f}")
    line("on, more than off", f"{found['on'] - found['off']:+.0f}")


CHILD = """
import resource, torch
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
"""


def show_startup(rounds, line):
    """A program that imports torch and ends, alternately plain and under `mfu run`: wall time and CPU time of all
    processes, and the memory of the program's own process."""
    plain = [sys.executable, "-c", CHILD]
    under = [str(BUILT / "mfu"), "run", "--dir", "/tmp/mfu-bench-run", "--", *plain]
    taken = {"plain": [], "mfu run": []}
    for _ in range(rounds):
        for name, command in (("plain", plain), ("mfu run", under)):
            before, start = os.times(), time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            wall, after = time.perf_counter() - start, os.times()
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            taken[name].append((wall * 1e3, cpu * 1e3, int(done.stdout.split()[0]) / 1024))
    line("import torch", "wall, ms (median, best)", "CPU, ms (median, best)", "peak memory of the program, MB")
    for name, rows in taken.items():
        wall, cpu, memory = zip(*rows)
        line(
            name,
            f"{statistics.median(wall):.0f}, {min(wall):.0f}",
            f"{statistics.median(cpu):.0f}, {min(cpu):.0f}",
            f"{statistics.median(memory):.1f}",
        )
    more = [[y - x for x, y in zip(*column)] for column in zip(*(zip(*rows) for rows in taken.values()))]
    best = [min(y) - min(x) for x, y in zip(*(zip(*rows) for rows in taken.values()))]
    line(
        "more",
        f"{statistics.median(more[0]):+.0f}, {best[0]:+.0f}",
        f"{statistics.median(more[1]):+.0f}, {best[1]:+.0f}",
        f"{statistics.median(more[2]):+.1f}",
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", choices=("operators", "steps", "startup", "callgrind"))
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()

    line = lines(arguments.markdown)
    wanted = lambda name: arguments.only in (None, name)  # noqa: E731
    if wanted("startup"):
        show_startup(max(5, arguments.rounds // 10), line)
    if arguments.only == "callgrind":
        show_callgrind(line)
    if wanted("operators") or wanted("steps"):
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(0)
        operator_ns = show_operators(arguments.rounds, line)
    if wanted("steps"):
        show_steps(arguments.rounds, line, operator_ns)


main()
