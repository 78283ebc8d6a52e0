"""How long the command line takes to answer, and how many instructions that is (valgrind --tool=callgrind, repeatable).

    python3 bench/startup.py        after ./run or ./test; prints a table beside the targets of the design
"""

import re
import statistics
import subprocess
import time
from pathlib import Path

MFU = Path(__file__).resolve().parent.parent / "build" / "release" / "mfu"
ROUNDS = 60


def times_ms(command):
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        taken.append((time.perf_counter() - start) * 1e3)
    return taken


def instructions(command):
    try:
        run = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command], capture_output=True, text=True)
    except FileNotFoundError:
        return "valgrind is not installed"
    found = re.search(r"Collected : (\d+)", run.stderr)
    return f"{int(found.group(1)):,}" if found else "?"


def main():
    print(f"{'command':<42}{'median ms':>10}{'best ms':>9}{'target ms':>11}  instructions")
    for words, target in ((["--version"], 10), (["peak", "h100"], 20), (["peak", "h100", "--json"], 20), (["peak", "--list"], "-")):
        taken = times_ms([MFU, *words])
        print(f"{'mfu ' + ' '.join(words):<42}{statistics.median(taken):>10.1f}{min(taken):>9.1f}{target:>11}  "
              f"{instructions([str(MFU), *words])}")
    idle = times_ms(["true"])
    print(f"{'true (the floor of starting a process)':<42}{statistics.median(idle):>10.1f}{min(idle):>9.1f}{'-':>11}")


main()
