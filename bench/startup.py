"""How long the command line takes to answer, and what `mfu run` adds to the start of a program, as ratios within one run.

    python3 bench/startup.py                 after ./run or ./test; prints tables beside the targets of the design
    python3 bench/startup.py --instructions  also counts instructions (valgrind --tool=callgrind), which a busy machine does not change

What is compared is started turn by turn, so that a slow minute of the machine slows both; of each, the best and the median are shown.
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
PASS_LIMIT_MS, IMPORT_LIMIT = 50, 0.05  # what `mfu run` may add to `python -c pass`, and to `import torch`


def once_ms(command, folder):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, check=True)
    return (time.perf_counter() - start) * 1e3


def in_turns_ms(commands, rounds):
    """Times of each command, one of each a round; the first round fills caches and is left out."""
    taken = [[] for _ in commands]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for command, times in zip(commands, taken):
                spent = once_ms(command, folder)
                if number:
                    times.append(spent)
    return taken


def instructions(command):
    """Of the command and all that it starts; None where valgrind is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = subprocess.run(["valgrind", "--tool=callgrind", "--trace-children=yes", "--callgrind-out-file=/dev/null", *command],
                                 capture_output=True, text=True, cwd=folder)
        except FileNotFoundError:
            return None
    return sum(int(count) for count in re.findall(r"Collected : (\d+)", run.stderr))


def answers(counting):
    print(f"{'command':<42}{'median ms':>10}{'best ms':>9}{'target ms':>11}  instructions")
    for words, target in ((["--version"], 10), (["peak", "h100"], 20), (["peak", "h100", "--json"], 20), (["peak", "--list"], "-")):
        [taken] = in_turns_ms([[MFU, *words]], 60)
        counted = instructions([str(MFU), *words]) if counting else None
        print(f"{'mfu ' + ' '.join(words):<42}{statistics.median(taken):>10.1f}{min(taken):>9.1f}{target:>11}  {'-' if counted is None else f'{counted:,}'}")
    [idle] = in_turns_ms([["true"]], 60)
    print(f"{'true (the floor of starting a process)':<42}{statistics.median(idle):>10.1f}{min(idle):>9.1f}{'-':>11}")


def under_mfu_run(program, rounds):
    """([ms without], [ms under mfu run]) of one program."""
    plain = [PYTHON, "-c", program]
    return in_turns_ms([plain, [str(MFU), "run", "--", *plain]], rounds)


def added(counting):
    """What `mfu run` adds; False where a target is missed."""
    print(f"\n{'under mfu run':<24}{'without ms':>11}{'with ms':>9}{'added ms':>10}{'ratio':>8}  target")
    good = True
    for program, rounds, target in (("pass", 40, f"at most +{PASS_LIMIT_MS} ms"), ("import torch", 15, f"at most +{IMPORT_LIMIT:.0%}")):
        without, watched = under_mfu_run(program, rounds)
        for name, of in (("best", min), ("median", statistics.median)):
            more, ratio = of(watched) - of(without), of(watched) / of(without)
            print(f"{program + ', ' + name:<24}{of(without):>11.1f}{of(watched):>9.1f}{more:>10.1f}{ratio:>8.3f}  {target}")
        more, ratio = min(watched) - min(without), min(watched) / min(without)
        good &= more <= PASS_LIMIT_MS if program == "pass" else ratio <= 1 + IMPORT_LIMIT
        if counting:
            plain = [PYTHON, "-c", program]
            first, second = instructions(plain), instructions([str(MFU), "run", "--", *plain])
            if first and second:
                print(f"{'  instructions':<24}{first:>15,}{second:>15,}{second / first:>8.3f}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instructions", action="store_true", help="also count instructions, minutes of work")
    options = parser.parse_args()
    answers(options.instructions)
    return 0 if added(options.instructions) else 1


if __name__ == "__main__":
    raise SystemExit(main())
