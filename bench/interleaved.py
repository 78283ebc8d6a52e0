"""Times two ways to do the same work by turns in one process, so that a busy machine slows both alike."""

import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def cpu_ns(function, times):
    """CPU time of this thread for one call."""
    start = time.thread_time_ns()
    for _ in range(times):
        function()
    return (time.thread_time_ns() - start) / times


def interval(values, draws=1000):
    """Median and its 95 % bootstrap interval."""
    random.seed(0)
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(draws))
    return statistics.median(values), medians[draws // 40], medians[-draws // 40]


def off_on(step, on, times, rounds):
    """Gives (off/off, on/off) of each round. A round is off, on, off, on, off; each `on` is compared with the two `off`
    around it. `on` is a context that yields other work, or None to do the same work."""
    noise, effect = [], []
    for _ in range(rounds):
        taken = []
        for place in range(5):
            if place % 2:
                with on() as work:
                    taken.append(cpu_ns(work or step, times))
            else:
                taken.append(cpu_ns(step, times))
        noise.append(2 * taken[2] / (taken[0] + taken[4]))
        effect.append((taken[1] + taken[3]) / (taken[0] / 2 + taken[2] + taken[4] / 2))
    return noise, effect


def percents(values):
    """Median and interval of ratios, as a percentage above 1."""
    return [100 * (value - 1) for value in interval(values)]


def as_text(percent):
    middle, low, high = percent
    return f"{middle:+.2f} % [{low:+.2f}, {high:+.2f}]"


def lines(markdown):
    """A function that prints a row of cells."""

    def line(*cells):
        print(
            "| " + " | ".join(cells) + " |" if markdown else "  ".join(f"{cell:<28}" for cell in cells).rstrip(),
            flush=True,
        )

    return line


def gpt_steps():
    """Two training steps without an optimizer, as (name, model, step, times a block): one layer of width 64 takes about
    2 ms, two layers of width 256 take about 50 ms."""
    sys.path.append(str(ROOT / "tests" / "python" / "observer"))
    from models import Gpt, gpt_step

    for name, shape, batch, times in (
        ("2 ms", {"layers": 1, "width": 64, "heads": 2, "vocabulary": 256}, 4, 8),
        ("50 ms", {"layers": 2, "width": 256, "heads": 8, "vocabulary": 1024}, 16, 2),
    ):
        model = Gpt(**shape)
        yield (
            name,
            model,
            lambda model=model, batch=batch, words=shape["vocabulary"]: gpt_step(model, batch, 32, words),
            times,
        )
