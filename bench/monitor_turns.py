"""Compares what log_step costs in two builds, in C++ and from Python, with a run directory. The builds take turns; the
best and the median of each are printed.

    bench/monitor_turns.py BUILD_BEFORE BUILD_AFTER [TURNS]

A build is a folder such as build/release, with bench/monitor_bench and python/mfu in it.
"""

import os
import subprocess
import sys
import tempfile

PROGRAM = """
import sys, time, mfu
folder = sys.argv[1]
monitor = mfu.Monitor(mode="estimate", peak=1e15, output_dir=folder, run_dir=folder + "/mfu-run",
                      csv=folder + "/steps.csv", wandb=False)
log_step, best, number = monitor.log_step, 1e9, 0
for _ in range(60):
    start = time.perf_counter()
    for number in range(number, number + 2000):
        log_step(step=number, epoch=1, loss=2.5, grad_norm=0.7, learning_rate=1e-4, batch=8, seq=4096)
    best = min(best, (time.perf_counter() - start) / 2000)
    monitor.flush()
print(best * 1e9)
"""


def native(build, folder):
    text = subprocess.run(
        [os.path.join(build, "bench", "monitor_bench"), folder], capture_output=True, text=True, check=True
    ).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("log_step, five sinks")]
    return float(line[44:].split()[0])


def python(build, folder):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, folder],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ, PYTHONPATH=os.path.abspath(os.path.join(build, "python"))),
    )
    return float(done.stdout)


def main():
    builds, turns = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 10
    for name, measure in (("C++", native), ("Python", python)):
        times = {build: [] for build in builds}
        for turn in range(turns):
            for build in builds if turn % 2 == 0 else builds[::-1]:
                with tempfile.TemporaryDirectory() as folder:
                    times[build].append(measure(build, folder))
        for label, build in zip(("before", "after"), builds):
            ordered = sorted(times[build])
            print(f"{name:8}{label:8}best {ordered[0]:8.1f} ns   median {ordered[len(ordered) // 2]:8.1f} ns   {build}")


if __name__ == "__main__":
    main()
