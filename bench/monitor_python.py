"""Measures what log_step costs a Python loop, with keyword arguments and every sink on, also while disks stall. A
plain-Python logger is measured for comparison.

    PYTHONPATH=build/release/python .venv/bin/python bench/monitor_python.py [--wandb] [FOLDER]

Each row takes turns with an empty loop that has the same pauses, so that the machine disturbs both alike. A row is
timed five times (three times if its steps are paced). Its best time is the best of all; its quantiles are the medians,
because a shared machine disturbs in bursts. --wandb adds Weights & Biases, offline, in its own thread. Steps come as
fast as the loop can call, which fills the queue. In the rows "a step each 200 µs" they come as in a quick training
loop, and all threads work at the same time.
"""

import collections
import os
import statistics
import sys
import tempfile
import threading
import time

import mfu

ROUNDS, STEPS = 10, 4000  # the steps of one round just fit into the queue
TIMES, PACED_TIMES = 5, 3
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
SLOW_BYTES, SLOW_PAUSE_S = 4096, 0.02  # how long a slow disk takes, and how often it does


def nothing(step):
    pass


def each_call(step, number, to, pace_ns):
    clock = time.perf_counter_ns
    for number in range(number, number + STEPS):
        one = clock()
        step(number)
        end = clock()
        to.append(end - one)
        while clock() - end < pace_ns:
            pass
    return number + 1


def timed(step, between, pace_ns=0):
    """(best round's ns a call, median, p99.9, p99.9 of the empty loop, highest p99.9): the docstring at the top
    explains them."""
    number, found = 0, []
    for _ in range(PACED_TIMES if pace_ns else TIMES):
        number, *each = timed_once(step, between, pace_ns, number)
        found.append(each)
    best, median, late, empty = zip(*found)
    return min(best), statistics.median(median), statistics.median(late), statistics.median(empty), max(late)


def timed_once(step, between, pace_ns, number):
    """Each round fits into the queue. `between` drains it and is not timed."""
    clock, best, each, empty = time.perf_counter_ns, 1e18, [], []
    for _ in range(ROUNDS):
        between()
        start = clock()
        for number in range(number, number + STEPS):
            step(number)
        best = min(best, (clock() - start) / STEPS)
        between()
        number = each_call(step, number + 1, each, pace_ns)
        between()
        each_call(nothing, 0, empty, pace_ns)
    late = lambda values: sorted(values)[int(0.999 * (len(values) - 1))]  # noqa: E731
    return number, best, sorted(each)[len(each) // 2], late(each), late(empty)


def monitor_in(folder, project, **more):
    os.makedirs(folder, exist_ok=True)
    return mfu.Monitor(
        model=LLAMA,
        mode="estimate",
        peak=989.4e15,
        output_dir=folder,
        csv=f"{folder}/steps.csv",
        tensorboard=f"{folder}/board",
        prometheus=f"{folder}/mfu.prom",
        wandb=project,
        **more,
    )


def logging(monitor):
    log_step = monitor.log_step

    def step(number):
        log_step(step=number, epoch=1, loss=2.5, grad_norm=0.7, learning_rate=1e-4, batch=8, seq=4096)

    return step


def beside_a_pipe(folder, project, read):
    """A sink writes into a pipe; `read` is what the process at the other end does with the data."""
    pipe = f"{folder}/pipe.jsonl"
    os.makedirs(folder, exist_ok=True)
    os.mkfifo(pipe)
    reader = os.fork()
    if reader == 0:
        with open(pipe, "rb", buffering=0) as source:
            read(source)
        os._exit(0)
    held = os.open(pipe, os.O_RDWR)  # so that opening to write does not wait for the reader
    monitor = monitor_in(folder, project, jsonl=pipe)
    yield monitor
    dropped = monitor.status().dropped
    os.kill(reader, 9)
    os.waitpid(reader, 0)
    os.close(held)
    monitor.close()
    yield dropped


def stopped(source):
    os.kill(os.getpid(), 19)


def slow(source):
    while source.read(SLOW_BYTES):
        time.sleep(SLOW_PAUSE_S)


def main():
    project = "bench" if "--wandb" in sys.argv else False
    folders = [word for word in sys.argv[1:] if not word.startswith("-")]
    folder = tempfile.mkdtemp(prefix="mfu-bench-", dir=folders[0] if folders else None)
    os.environ.setdefault("WANDB_MODE", "offline")
    os.environ.setdefault("WANDB_DIR", folder)
    os.environ.setdefault("WANDB_SILENT", "true")
    print(f"{'ns a call':<58}{'best':>9}{'p50':>9}{'p99.9':>9}{'highest':>9}{'empty p99.9':>13}   target")

    def row(name, times, target=""):
        print(f"{name:<58}{times[0]:>9.0f}{times[1]:>9}{times[2]:>9}{times[4]:>9}{times[3]:>13}   {target}", flush=True)

    quickly = "best <= 500, p99.9 <= empty + 5000"
    monitor = monitor_in(f"{folder}/plain", project)
    step, drained = logging(monitor), lambda: monitor.flush(60)
    row("an empty function", timed(nothing, lambda: None))
    row("log_step, seven keywords, every sink", timed(step, drained), quickly)
    row("the same, a step each 200 µs", timed(step, lambda: None, 200_000), quickly)
    dropped = monitor.status().dropped
    row("the same, the queue is full", timed(step, lambda: None), quickly)
    try:
        import torch

        mask = torch.ones(8, 4096, dtype=torch.int64)
        row(
            "log_step, a mask of 8 × 4096", timed(lambda number: monitor.log_step(number, attention_mask=mask), drained)
        )
    except ImportError:
        pass
    monitor.close()
    for name, read in (("a sink's reader is stopped", stopped), ("a sink's disk is slow", slow)):
        opened = beside_a_pipe(f"{folder}/{read.__name__}", project, read)
        step = logging(next(opened))
        for pace_ns, said in ((0, name), (200_000, f"{name}, a step each 200 µs")):
            row(f"log_step, {said}", timed(step, lambda: time.sleep(0.002), pace_ns), quickly)
        print(f"{'':<58}{next(opened)} steps dropped, and counted")
    full = monitor_in(f"{folder}/full", project, jsonl="/dev/full")
    row("log_step, a sink's disk is full", timed(logging(full), lambda: full.flush(60)), quickly)
    full.close()
    deque, lock = collections.deque(maxlen=100_000), threading.Lock()

    def plain(number):
        with lock:
            deque.append(
                {
                    "step": number,
                    "epoch": 1,
                    "loss": 2.5,
                    "grad_norm": 0.7,
                    "learning_rate": 1e-4,
                    "tokens": 8 * 4096,
                    "time": time.perf_counter(),
                }
            )

    row("a dict into a deque, with a lock", timed(plain, deque.clear))
    row("the same, a step each 200 µs", timed(plain, deque.clear, 200_000))
    print(
        f"steps dropped while somebody drained: {dropped}; sinks: log, CSV, TensorBoard, Prometheus, run"
        f" directory{', Weights & Biases offline' if project else ''}"
    )


if __name__ == "__main__":
    main()
