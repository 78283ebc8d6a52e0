"""Measures what each mode of the monitor costs a training step. For comparison it shows published costs of such modes,
and the cost of a plain-Python logger.

    PYTHONPATH=build/release/python .venv/bin/python bench/monitor_modes.py [--rounds 100] [--markdown]

Monitored and plain steps take turns in one process with one compute thread. Times are CPU time of the training thread.
Sinks: log, CSV, TensorBoard, Prometheus, run directory. `alone` is the best round of the same calls around an empty
step: the cost if nothing is counted, without the machine's noise. `behind` is CPU time of the monitor's threads per
step.
"""

import argparse
import collections
import contextlib
import os
import sys
import tempfile
import threading
import time

from interleaved import ROOT, as_text, cpu_ns, gpt_steps, lines, off_on, percents

sys.path[:0] = [str(ROOT / "build" / "release" / "python")]
import mfu  # noqa: E402

MODEL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "vocab_size": 1024,
}
# (name, settings, published overhead of that mode on a training run)
MODES = [
    ("estimate", {"mode": "estimate"}, "0.1 %"),
    ("smart", {"mode": "smart"}, "0.5 %"),
    ("profiler, every 50 steps", {"mode": "profiler", "measure_flops_frequency": 50}, "5 %"),
    ("profiler, every step", {"mode": "profiler", "measure_flops_frequency": 1}, "5 %"),
    ("hybrid", {"mode": "hybrid"}, "2 to 10 %"),
]


class Monitored:
    """A training step inside a monitor's block."""

    def __init__(self, folder, settings):
        os.makedirs(folder)
        self.monitor = mfu.Monitor(
            model=MODEL,
            peak=1e15,
            output_dir=folder,
            csv=f"{folder}/steps.csv",
            tensorboard=f"{folder}/board",
            prometheus=f"{folder}/mfu.prom",
            wandb=False,
            **settings,
        )
        self.number = 0

    def around(self, step):
        def work():
            with self.monitor.step(self.number, loss=2.5, grad_norm=0.7, learning_rate=1e-4, batch=16, seq=32):
                step()
            self.number += 1

        return work

    def drain(self):
        self.monitor.flush(60)


class Plain:
    """A logger of a few lines in plain Python, to compare with."""

    def __init__(self):
        self.deque, self.lock, self.number = collections.deque(maxlen=100_000), threading.Lock(), 0

    def around(self, step):
        def work():
            start = time.perf_counter()
            step()
            with self.lock:
                self.deque.append(
                    {
                        "step": self.number,
                        "loss": 2.5,
                        "grad_norm": 0.7,
                        "learning_rate": 1e-4,
                        "tokens": 16 * 32,
                        "time": time.perf_counter() - start,
                    }
                )
            self.number += 1

        return work

    def drain(self):
        self.deque.clear()


def behind_ns(work, times=200):
    """CPU time of the other threads for each step."""
    whole, own = time.process_time_ns(), time.thread_time_ns()
    for _ in range(times):
        work()
    time.sleep(0.3)
    return (time.process_time_ns() - whole - time.thread_time_ns() + own) / times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    line = lines(arguments.markdown)
    line("step", "off, ms", "mode", "off/off", "on/off", "alone, µs", "behind, µs", "published")
    folder = tempfile.mkdtemp(prefix="mfu-bench-")
    for name, _, step, times in gpt_steps():
        for _ in range(5):
            step()
        base = min(cpu_ns(step, times) for _ in range(10)) / 1e6
        for mode, settings, published in [*MODES, ("a dict into a deque", None, "")]:
            monitored = (
                Plain() if settings is None else Monitored(f"{folder}/{name}-{mode}".replace(" ", "-"), settings)
            )
            work = monitored.around(step)
            work()  # registers the observer once, if this mode needs it; it stays registered
            noise, effect = off_on(step, lambda work=work: contextlib.nullcontext(work), times, arguments.rounds)
            monitored.drain()
            empty = monitored.around(lambda: None)
            alone = min(cpu_ns(empty, 200) for _ in range(5)) / 1e3
            monitored.drain()
            behind = behind_ns(work, 50) / 1e3
            line(
                name,
                f"{base:.2f}",
                mode,
                as_text(percents(noise)),
                as_text(percents(effect)),
                f"{alone:.1f}",
                f"{behind:.0f}",
                published,
            )


if __name__ == "__main__":
    main()
