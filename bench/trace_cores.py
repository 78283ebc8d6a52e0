"""Measures what more cores do for one trace: wall and CPU seconds of `mfu explain`, by turns in one run.

    python3 bench/trace_cores.py TRACE.json[.gz] [--mfu MFU] [--before PARENT/build/release/mfu] [--rounds 9]

For one core the command runs under `taskset -c 0`, for all cores without it. --before is another build to compare with,
such as that of the previous commit. On a busy machine the result means little: the last line says how many cores the
command really got. bench/trace_peers.py --make makes large traces.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def seconds(command):
    """(wall, CPU) seconds of one call."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--mfu", default=str(ROOT / "build" / "release" / "mfu"))
    parser.add_argument("--before", help="another build to compare it with")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    explain = [options.mfu, "explain", options.trace, "--json"]
    ways = {"one core": ["taskset", "-c", "0", *explain], f"{os.cpu_count()} cores": explain}
    if options.before:
        ways["before"] = [options.before, *explain[1:]]
    taken = {name: [] for name in ways}
    for command in ways.values():  # reads the file once, so that it is in memory
        seconds(command)
    for _ in range(options.rounds):
        for name, command in ways.items():
            taken[name].append(seconds(command))
    size = os.path.getsize(options.trace)
    print(f"{'':10} {'wall best':>10} {'median':>10} {'CPU best':>10} {'GB/s CPU':>10}")
    for name, runs in taken.items():
        wall, cpu = [run[0] for run in runs], min(run[1] for run in runs)
        print(f"{name:10} {min(wall):10.3f} {statistics.median(wall):10.3f} {cpu:10.3f} {size / cpu / 1e9:10.2f}")
    names = list(ways)
    for name in [names[0], *names[2:]]:
        ratios = sorted(one[0] / all_[0] for one, all_ in zip(taken[name], taken[names[1]]))
        print(
            f"{names[1]} against {name}: {statistics.median(ratios):.2f} times as fast"
            f" ({ratios[0]:.2f} to {ratios[-1]:.2f}; best against best"
            f" {min(run[0] for run in taken[name]) / min(run[0] for run in taken[names[1]]):.2f})"
        )
    print(f"cores that it got: {max(cpu / wall for wall, cpu in taken[names[1]]):.2f}")


if __name__ == "__main__":
    main()
