"""Measures how long the command line takes to answer, and how much `mfu run` adds to the start of a program, as ratios
within one run.

    python3 bench/startup.py                 after ./run or ./test; prints tables with the targets of the design
    python3 bench/startup.py --instructions  also counts instructions (valgrind --tool=callgrind), which a busy machine
    does not change

The commands that are compared take turns, so that a slow minute of the machine slows both. The best and the median of
each are shown.
"""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MFU = ROOT / "build" / "release" / "mfu"
PYTHON = os.environ.get("MFU_PYTHON") or str(ROOT / ".venv" / "bin" / "python")
PASS_LIMIT_MS, IMPORT_LIMIT = 50, 0.05  # how much time `mfu run` may add to `python -c pass`, and to `import torch`


def once_ms(command, folder):
    """(time, processor time) of the command and everything it started. The second changes little on a busy machine."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return (time.perf_counter() - start) * 1e3, (used.ru_utime + used.ru_stime) * 1e3


def in_turns_ms(commands, rounds):
    """([time], [processor time]) of each command. Every round runs each command once; the first round fills caches and
    is not counted."""
    taken = [([], []) for _ in commands]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for command, lists in zip(commands, taken):
                for spent, values in zip(once_ms(command, folder), lists):
                    if number:
                        values.append(spent)
    return taken


def instructions(command):
    """Instructions of the command and everything it starts; None if valgrind is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = subprocess.run(
                ["valgrind", "--tool=callgrind", "--trace-children=yes", "--callgrind-out-file=/dev/null", *command],
                capture_output=True,
                text=True,
                cwd=folder,
            )
        except FileNotFoundError:
            return None
    return sum(int(count) for count in re.findall(r"Collected : (\d+)", run.stderr))


def answers(counting):
    print(f"{'command':<42}{'median ms':>10}{'best ms':>9}{'target ms':>11}  instructions")
    for words, target in (
        (["--version"], 10),
        (["peak", "h100"], 20),
        (["peak", "h100", "--json"], 20),
        (["peak", "--list"], "-"),
    ):
        [(taken, _)] = in_turns_ms([[MFU, *words]], 60)
        counted = instructions([str(MFU), *words]) if counting else None
        print(
            f"{'mfu ' + ' '.join(words):<42}{statistics.median(taken):>10.1f}{min(taken):>9.1f}{target:>11} "
            f" {'-' if counted is None else f'{counted:,}'}"
        )
    [(idle, _)] = in_turns_ms([["true"]], 60)
    print(f"{'true (the floor of starting a process)':<42}{statistics.median(idle):>10.1f}{min(idle):>9.1f}{'-':>11}")


def added(rounds, counting):
    """Measures what `mfu run` adds; returns False if a target is missed."""
    print(f"\n{'under mfu run':<34}{'without ms':>11}{'with ms':>9}{'added ms':>10}{'ratio':>8}  target")
    good = True
    for program, times, target in (
        ("pass", 3 * rounds, f"at most +{PASS_LIMIT_MS} ms"),
        ("import torch", rounds, f"at most +{IMPORT_LIMIT:.0%}"),
    ):
        plain = [PYTHON, "-c", program]
        watched = [str(MFU), "run", "--", *plain]
        taken = in_turns_ms([plain, watched], times)
        for place, what in enumerate(("time", "processor time")):
            for name, of in (("best", min), ("median", statistics.median)):
                without, under = of(taken[0][place]), of(taken[1][place])
                print(
                    f"{f'{program}, {name} {what}':<34}{without:>11.1f}{under:>9.1f}{under - without:>10.1f}"
                    f"{under / without:>8.3f}  {target}"
                )
        without, under = min(taken[0][0]), min(taken[1][0])
        good &= under - without <= PASS_LIMIT_MS if program == "pass" else under / without <= 1 + IMPORT_LIMIT
        if counting:
            first, second = instructions(plain), instructions(watched)
            if first and second:
                print(f"{f'{program}, instructions':<34}{first:>15,}{second:>15,}{second / first:>8.3f}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instructions", action="store_true", help="also count instructions, minutes of work")
    parser.add_argument(
        "--rounds", type=int, default=15, help="turns of `import torch`; three times as many of `pass` (default 15)"
    )
    options = parser.parse_args()
    answers(options.instructions)
    return 0 if added(options.rounds, options.instructions) else 1


if __name__ == "__main__":
    raise SystemExit(main())
