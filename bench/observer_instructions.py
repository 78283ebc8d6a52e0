"""Measures what observing costs in instructions per operator, which a busy machine does not change.

    .venv/bin/python bench/observer_instructions.py [TREE…]     for this tree, or for several built trees side by side

Each operator runs in a loop under `valgrind --tool=callgrind`, observed and not observed, in one process. A small
library that is compiled here separates the counts of the loops. The result is the number of instructions that observing
adds: with grad mode off, with grad mode on, and for a forward with its backward. It is the least of five blocks,
because torch's allocator does not always do the same. This needs valgrind with its headers and a C compiler, and takes
minutes.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CUT = """
#include <valgrind/callgrind.h>
void cut(const char* name) { CALLGRIND_DUMP_STATS_AT(name); }
"""
LOOPS = """
import ctypes, gc, sys
built, cutter, times = sys.argv[1], ctypes.CDLL(sys.argv[2]), int(sys.argv[3])
sys.path[:0] = [built]
import torch
from torch.nn import functional as F
from mfu import _observer
torch.set_num_threads(1)
x, w, b = torch.randn(4, 8), torch.randn(8, 8), torch.randn(8)
z, q = torch.randn(2, 4, 4), torch.randn(2, 2, 4, 8)
y, u = torch.empty(4, 8), torch.empty(2, 4, 4)
mask = torch.ones(4, 4, dtype=torch.bool).tril()
leaf = torch.randn(8, 8, requires_grad=True)
query = torch.randn(2, 2, 4, 8, requires_grad=True)
def step():
    (x @ leaf).sum().backward()
layer = torch.nn.Linear(8, 8)
sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
def whole():
    layer(x).sum().backward()
    sgd.step()
    sgd.zero_grad()
def attend():
    F.scaled_dot_product_attention(query, q, q, is_causal=True).sum().backward()
def attend_masked():
    F.scaled_dot_product_attention(query, q, q, attn_mask=mask).sum().backward()
WORK = {
    "mm": lambda: torch.mm(x, w, out=y),
    "addmm": lambda: torch.addmm(b, x, w, out=y),
    "bmm": lambda: torch.bmm(z, z, out=u),
    "linear": lambda: F.linear(x, w, b),
    "attention": lambda: F.scaled_dot_product_attention(q, q, q),
    "attention, causal": lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True),
    "attention, mask": lambda: F.scaled_dot_product_attention(q, q, q, attn_mask=mask),
    "softmax": lambda: torch.softmax(z, -1),
    "add": lambda: torch.add(x, b, out=y),
    "mm, backward": step,
    "whole step of SGD, backward": whole,
    "attention, causal, backward": attend,
    "attention, mask, backward": attend_masked,
}
def loop(name, work):
    for _ in range(20): work()
    cutter.cut(b"-")
    for _ in range(times): work()
    cutter.cut(name.encode())
gc.disable()
for block in range(5):
    for state in ("on", "off"):
        if state == "on": _observer.start(region_folder="")
        for name, work in WORK.items():
            backward = name.endswith("backward")
            if not backward:
                with torch.no_grad(): loop(f"{state}|{name}|{block}", work)
            loop(f"{state}|{name}" + ("" if backward else ", grad mode") + f"|{block}", work)
        if state == "on": _observer.stop()
"""


def measured(tree, times):
    """{operator: instructions that observing adds}"""
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder, "cut.c"), pathlib.Path(folder, "cut.so")
        source.write_text(CUT)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", sys.executable, "-c", LOOPS,
                   f"{tree}/build/release/python", str(library), str(times)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode != 0:
            sys.exit("\n".join(done.stderr.splitlines()[-5:]))
        counts = {}
        for path in pathlib.Path(folder).glob("out*"):
            text = path.read_text(errors="replace")
            name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
            total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
            if name and total and "|" in name.group(1):
                state, operator, _ = name.group(1).split("|")
                counts.setdefault((state, operator), []).append(int(total.group(1)))
    names = [name for state, name in counts if state == "off"]
    return {name: (min(counts["on", name]) - min(counts["off", name])) / times for name in sorted(names)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trees", nargs="*", default=[ROOT])
    parser.add_argument("--times", type=int, default=200)
    arguments = parser.parse_args()
    found = [measured(tree, arguments.times) for tree in arguments.trees]
    print(f"{'instructions added':32}" + "".join(f"{pathlib.Path(tree).name:>14}" for tree in arguments.trees))
    for name in found[0]:
        print(f"{name:32}" + "".join(f"{each.get(name, float('nan')):14.0f}" for each in found))


if __name__ == "__main__":
    main()
