"""What log_step costs a Python loop, keyword arguments and every sink on, beside a plain-Python logger and an empty loop.

    PYTHONPATH=build/release/python .venv/bin/python bench/monitor_python.py [--wandb] [FOLDER]

--wandb: Weights & Biases too, offline, in its thread; the pauses that let it keep up are long.
"""

import collections
import os
import sys
import tempfile
import threading
import time

import mfu

ROUNDS, STEPS = 15, 1000
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}


def timed(step, between):
    """(best round's ns a call, median, p99.9): rounds that the queue can hold, what drains it between them and not timed."""
    clock, best, each, number = time.perf_counter_ns, 1e18, [], 0
    for _ in range(ROUNDS):
        start = clock()
        for number in range(number, number + STEPS):
            step(number)
        best = min(best, (clock() - start) / STEPS)
        between()
        number += 1
        for number in range(number, number + STEPS):
            one = clock()
            step(number)
            each.append(clock() - one)
        between()
        number += 1
    each.sort()
    return best, each[len(each) // 2], each[int(0.999 * (len(each) - 1))]


def main():
    project = "bench" if "--wandb" in sys.argv else False
    folders = [word for word in sys.argv[1:] if not word.startswith("-")]
    folder = folders[0] if folders else tempfile.mkdtemp(prefix="mfu-bench-")
    os.environ.setdefault("WANDB_MODE", "offline")
    os.environ.setdefault("WANDB_DIR", folder)
    monitor = mfu.Monitor(model=LLAMA, mode="estimate", peak=989.4e12, output_dir=folder, run_dir=f"{folder}/run", csv=f"{folder}/steps.csv",
                          tensorboard=f"{folder}/board", prometheus=f"{folder}/mfu.prom", wandb=project)
    log_step, deque, lock = monitor.log_step, collections.deque(maxlen=100_000), threading.Lock()

    def logged(step):
        log_step(step=step, epoch=1, loss=2.5, grad_norm=0.7, learning_rate=1e-4, batch=8, seq=4096)

    def plain(step):
        with lock:
            deque.append({"step": step, "epoch": 1, "loss": 2.5, "grad_norm": 0.7, "learning_rate": 1e-4, "tokens": 8 * 4096, "time": time.perf_counter()})

    rows = [("empty function", timed(lambda step: None, lambda: None), ""),
            ("log_step, seven keywords, every sink", timed(logged, lambda: monitor.flush(60)), "best <= 500 above empty"),
            ("dict into a deque, with a lock", timed(plain, deque.clear), "")]
    dropped = monitor.status().dropped
    rows.append(("log_step, the queue is full", timed(logged, lambda: None), "p99.9 <= empty + 5000"))
    try:
        import torch

        mask = torch.ones(8, 4096, dtype=torch.int64)
        rows.append(("log_step, a mask of 8 x 4096", timed(lambda step: log_step(step, attention_mask=mask), lambda: monitor.flush(60)), ""))
    except ImportError:
        pass
    print(f"{'ns a call':<40}{'best':>9}{'p50':>9}{'p99.9':>9}   target")
    for name, (best, middle, late), target in rows:
        print(f"{name:<40}{best:>9.0f}{middle:>9}{late:>9}   {target}")
    print(f"steps dropped while somebody drained: {dropped}; sinks: log, CSV, TensorBoard, Prometheus, run directory{', Weights & Biases offline' if project else ''}")
    monitor.close()


if __name__ == "__main__":
    main()
