"""Measures what `mfu run --explain` costs outside its window.

    python bench/explain_outside.py [--rounds N] [--markdown]

Steps take turns in one process: observed steps, and the same steps while the observer waits for a window, or after a
window has ended. On a busy machine the ratios say little. To count instructions instead, run it under
`valgrind --tool=callgrind` with `--count STEPS waited`, and again with `--count STEPS plain`."""

import argparse
import contextlib
import sys
import tempfile

from interleaved import ROOT, as_text, lines, off_on, percents

sys.path.insert(0, str(ROOT / "build" / "release" / "python"))

import torch  # noqa: E402

import mfu  # noqa: E402, F401
from mfu._load import observer  # noqa: E402

NEVER = b"steps=3 after=4000000000"


def training(width, batch):
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
    optimizer, data = torch.optim.SGD(model.parameters(), lr=1e-4), torch.randn(batch, width)

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


@contextlib.contextmanager
def waiting(library, folder):
    library.explain(folder, NEVER)
    try:
        yield None
    finally:
        library.explain(folder, b"")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--count", nargs=2, metavar=("STEPS", "waited|plain"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    folder = tempfile.mkdtemp(prefix="mfu-bench-").encode()
    waited = bool(asked.count) and asked.count[1] == "waited"
    library = observer().start(run_folder=folder.decode(), explain=NEVER.decode() if waited else "")
    if asked.count:
        step = training(64, 8)
        for _ in range(int(asked.count[0])):
            step()
        return
    line = lines(asked.markdown)
    line("step", "same again", "while a window is waited for", "after a window")
    if asked.markdown:
        line("---", "---", "---", "---")
    for width, batch, times in ((64, 8, 200), (512, 64, 20)):
        step = training(width, batch)
        for _ in range(50):
            step()
        noise, before = off_on(step, lambda: waiting(library, folder), times, asked.rounds)
        library.explain(folder, b"steps=3 after=0")
        for _ in range(20):
            step()
        _, after = off_on(step, lambda: contextlib.nullcontext(None), times, asked.rounds)
        line(f"{width} × {width}, batch {batch}", *(as_text(percents(each)) for each in (noise, before, after)))
    library.end_window(1)
    observer().stop()


if __name__ == "__main__":
    main()
