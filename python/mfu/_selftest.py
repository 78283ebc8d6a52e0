# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs, allow-untyped-decorators
"""Checks mfu on the devices of this machine, in about a minute: mfu doctor --selftest.

Known programs run under `mfu run` and `mfu explain` as a user's would, on the accelerator that torch has or else on the
CPU. Each check compares what mfu says with what the program knows: FLOPs that were computed by hand, and times by the
device's own events.

    python _selftest.py --mfu BINARY [--output PATH] [--json]        # what the command calls
    python _selftest.py --program eager --device cuda:0 FACTS        # one program; it writes what it knows to FACTS

If torch does not load the device by itself, MFU_SELFTEST_IMPORT names the module that does.
"""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIDE, STEPS = 256, 8
PRODUCT = 2 * SIDE**3  # FLOPs of one product


class Skip(Exception):
    """Says why a check cannot be made here."""


# The programs. Each runs on `device` and returns what it knows.


def _torch():
    import torch

    for name in filter(None, os.environ.get("MFU_SELFTEST_IMPORT", "").split(",")):
        importlib.import_module(name)
    torch.manual_seed(0)
    return torch


def _synchronize(torch, device):
    module: Any = getattr(torch, device.type, None)
    if device.type != "cpu" and hasattr(module, "synchronize"):
        module.synchronize(device)


def _event(torch, device):
    """An event that is recorded now; on a CPU the clock."""
    if device.type == "cpu":
        return time.perf_counter()
    event = torch.Event(device.type, enable_timing=True)
    event.record()
    return event


def _seconds(first, second):
    return second - first if isinstance(first, float) else first.elapsed_time(second) / 1000


def program_eager(torch, device):
    """Trains a linear layer without bias. A step has 2 products, because the input needs no gradient."""
    layer = torch.nn.Linear(SIDE, SIDE, bias=False).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    ends = []
    for _ in range(STEPS):
        layer(torch.randn(SIDE, SIDE, device=device)).square().mean().backward()
        optimizer.step()
        ends.append(_event(torch, device))
        optimizer.zero_grad()
    _synchronize(torch, device)
    times = sorted(_seconds(a, b) for a, b in zip(ends[1:], ends[2:]))
    return {
        "model_flop": STEPS * 2 * PRODUCT,
        "steps": STEPS,
        "step_ns": times[len(times) // 2] * 1e9,
        "shortest_step_ns": times[0] * 1e9,
        "longest_step_ns": times[-1] * 1e9,
    }


def program_compiled(torch, device):
    function = torch.compile(lambda a, b: torch.relu(a @ b) @ b)
    a, b = torch.randn(SIDE, SIDE, device=device), torch.randn(SIDE, SIDE, device=device)
    try:
        with torch.no_grad():
            for _ in range(3):
                function(a, b)
        _synchronize(torch, device)
    except Exception as error:  # torch's own error, or there is no C++ compiler
        raise Skip(
            f"torch does not compile for {device.type} here: {str(error).strip().splitlines()[0][:120]}"
        ) from None
    return {"model_flop": 3 * 2 * PRODUCT}


def program_graphs(torch, device):
    if device.type != "cuda":
        raise Skip(f"{device.type} has no graphs that mfu knows")
    a = torch.randn(SIDE, SIDE, device=device)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        a @ a
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        a @ a
    for _ in range(5):
        graph.replay()
    _synchronize(torch, device)
    return {"model_flop": 6 * PRODUCT}  # one run before the capture, then five replays


def program_triton(torch, device):
    if device.type not in ("cuda", "xpu"):
        raise Skip(f"Triton has no {device.type} backend")
    try:
        import triton
        import triton.language as tl
    except ImportError:
        raise Skip("Triton is not installed") from None

    @triton.jit
    def mfu_selftest_kernel(x, y, size: tl.constexpr):
        at = tl.arange(0, size)
        tl.store(y + at, tl.load(x + at) * 2)

    x = torch.randn(64, device=device)
    y = torch.empty_like(x)
    for _ in range(3):
        mfu_selftest_kernel[(1,)](x, y, 64)
    _synchronize(torch, device)
    return {"kernel": "mfu_selftest_kernel", "calls": 3}


def program_fp8(torch, device):
    kind = getattr(torch, "float8_e4m3fn", None)
    if kind is None or not hasattr(torch, "_scaled_mm"):
        raise Skip("this torch has no fp8 products")
    try:
        a = torch.randn(SIDE, SIDE, device=device).to(kind)
        one = torch.ones((), device=device)
        torch._scaled_mm(a, a.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        _synchronize(torch, device)
    except Exception as error:  # noqa: BLE001
        raise Skip(f"this device has no fp8 products: {str(error).splitlines()[0][:120]}") from None
    return {"model_flop": PRODUCT}


def program_ceiling(torch, device):
    """Multiplies matrices that are as large as the device can use, and times this by the device's own events."""
    side, kind = (4096, torch.bfloat16) if device.type in ("cuda", "xpu") else (1024, torch.float32)
    a = torch.randn(side, side, device=device).to(kind)
    a @ a
    best = 0.0
    for _ in range(8):
        begin = _event(torch, device)
        a @ a
        end = _event(torch, device)
        _synchronize(torch, device)
        best = max(best, 2 * side**3 / max(_seconds(begin, end), 1e-9))
    return {"flop_per_s": best}


def program_retired(torch, device):
    a = torch.randn(1024, 1024, device=device)
    for _ in range(20):
        a @ a
    return {"model_flop": 20 * 2 * 1024**3}


def program_profiled(torch, device):
    from torch.profiler import ProfilerActivity, profile, record_function

    kinds = {ProfilerActivity.CPU, getattr(ProfilerActivity, device.type.upper(), None)}
    a = torch.randn(SIDE, SIDE, device=device)
    with profile(activities=[kind for kind in kinds if kind is not None], record_shapes=True) as profiler:
        for step in range(3):
            with record_function(f"ProfilerStep#{step}"):
                a @ a
        _synchronize(torch, device)
    path = Path(tempfile.mkdtemp()) / "trace.json"
    profiler.export_chrome_trace(str(path))
    return {"trace": str(path)}


# The checks.


class Machine:
    """Runs mfu and the programs."""

    def __init__(self, mfu, device):
        self.mfu, self.device, self.runs = mfu, device, {}

    def call(self, *words):
        made = subprocess.run([self.mfu, *map(str, words)], capture_output=True, text=True, timeout=300)
        return made.returncode, made.stdout, made.stderr

    def run(self, name):
        """What `mfu run` says about a program, and what the program knows. Each program runs once."""
        if name not in self.runs:
            self.runs[name] = self._run(name)
        found = self.runs[name]
        if isinstance(found, Exception):
            raise found
        return found

    def _run(self, name):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            program = [
                sys.executable,
                os.path.abspath(__file__),
                "--program",
                name,
                "--device",
                self.device,
                place / "facts.json",
            ]
            status, _, said = self.call(
                "run", "--dir", place / "run", "--json-file", place / "run.json", "--", *program
            )
            facts = json.loads((place / "facts.json").read_text()) if (place / "facts.json").is_file() else None
            if facts is None or status != 0:
                return RuntimeError(f"the program ended with {status}: {said.strip()[-300:]}")
            if "skip" in facts:
                return Skip(facts["skip"])
            return json.loads((place / "run.json").read_text()), facts


def exactly(machine, name):
    report, facts = machine.run(name)
    return (
        report["model_flop"],
        facts["model_flop"],
        report["model_flop"] == facts["model_flop"],
        "FLOPs of the model, to the digit",
    )


def check_device(machine):
    """The FLOPs belong to this device and to no other one."""
    report, facts = machine.run("eager")
    place = machine.device if ":" in machine.device else f"{machine.device}:0"
    index = None if machine.device == "cpu" else int(place.split(":")[1])
    seen = {str(each["index"]): each["model_flop"] for each in report["by_device"]}
    return (
        seen,
        {str(index): facts["model_flop"]},
        seen == {str(index): facts["model_flop"]},
        "FLOPs by the index of the device",
    )


def check_fp8(machine):
    """The products must be fp8. Those of another type would be compared with another peak."""
    report, facts = machine.run("fp8")
    seen = {kind: flop for kind, flop in report["flop_by_dtype"].items() if flop}
    expected = {"fp8": facts["model_flop"]}
    return seen, expected, seen == expected, "FLOPs by data type, to the digit"


def check_triton(machine):
    report, facts = machine.run("triton")
    named = [each for each in report["coverage"]["uncounted"] if facts["kernel"] in each["operator"]]
    seen = sum(each["calls"] for each in named)
    return seen, facts["calls"], seen == facts["calls"], "launches of a kernel without a formula, by name"


def check_steps(machine):
    report, facts = machine.run("eager")
    seen = report["step_ns"]["median"]
    # Both see the same steps. On a busy machine, a few steps take many times as long as the others, so two medians of
    # so few steps may differ. But mfu's median must lie between the shortest and the longest step of the program.
    low, high = 0.5 * facts["shortest_step_ns"], 2 * facts["longest_step_ns"] + 2e6
    if report["steps"] != facts["steps"]:
        return report["steps"], facts["steps"], False, "steps that ended"
    if machine.device != "cpu" and report["timing"] != "device":
        return report["timing"], "device", False, "whose clock the times are by: the device's events were not asked"
    return (
        seen,
        int(facts["step_ns"]),
        seen is not None and low <= seen <= high,
        "ns of a step (median), by the program's own events; from half its shortest to twice its longest step",
    )


def check_ceiling(machine):
    report, facts = machine.run("ceiling")
    peaks = [each["peak_flop_per_s"] for each in report["by_device"] if each["peak_flop_per_s"]]
    if not peaks:
        raise Skip("the peak of this device is not known: " + "; ".join(report["notes"])[:200])
    return (
        facts["flop_per_s"],
        f"at most {1.05 * peaks[0]:.6g}",
        0 < facts["flop_per_s"] <= 1.05 * peaks[0],
        "FLOP/s of the fastest product, against the peak",
    )


def check_ledger(machine):
    _, facts = machine.run("profiled")
    status, said, problem = machine.call("explain", facts["trace"], "--json")
    if status != 0:
        return problem.strip()[-300:], "an explanation", False, "mfu explain of a window profiled here"
    rank = json.loads(said)["ranks"][0]
    total, window = sum(line["duration_ns"] for line in rank["ledger"]), rank["window"]["duration_ns"]
    return total, window, total == window and window > 0, "ns of the ledger's lines, against the window"


def check_counters(machine):
    """Compares hardware counters with the FLOPs that were counted."""
    if machine.device != "cpu":
        raise Skip(
            "a GPU's counters are sampled over time (DCGM, GPM): mfu.Monitor(mode='hybrid') reads them, this test"
            " does not"
        )
    with tempfile.TemporaryDirectory() as folder:
        program = [
            sys.executable,
            os.path.abspath(__file__),
            "--program",
            "retired",
            "--device",
            "cpu",
            Path(folder) / "facts.json",
        ]
        status, said, problem = machine.call("doctor", "--retired", "--", *program)
        if status != 0:
            raise Skip(problem.strip()[-300:])
        expected = json.loads((Path(folder) / "facts.json").read_text())["model_flop"]
    seen = json.loads(said.strip().splitlines()[-1])["flop"]
    return (
        seen,
        expected,
        0.9 * expected <= seen <= 1.5 * expected,
        "FLOPs that the processor's counters saw, beside those by hand; -10% to +50%",
    )


CHECKS = [
    ("counts_eager", lambda machine: exactly(machine, "eager")),
    ("counts_by_device", check_device),
    ("counts_compiled", lambda machine: exactly(machine, "compiled")),
    ("counts_graphs", lambda machine: exactly(machine, "graphs")),
    ("names_triton", check_triton),
    ("counts_fp8", check_fp8),
    ("step_times", check_steps),
    ("ceiling_below_peak", check_ceiling),
    ("ledger_closes", check_ledger),
    ("hardware_counters", check_counters),
]

# What the user can do about a check that failed, until mfu is mended.
NEXT = {
    "counts_eager": "Do not trust an MFU of this machine",
    "counts_by_device": "Do not trust by_device of a run, nor its MFU over several devices",
    "counts_compiled": "Measure without torch.compile",
    "counts_graphs": "Measure without CUDA graphs",
    "names_triton": "FLOPs of Triton kernels may be missing without a word: give formulas (mfu run --formulas FILE)",
    "counts_fp8": "Measure in bf16",
    "step_times": "Name what ends a step (mfu run --step-marker), and compare step_ns with the program's own times",
    "ceiling_below_peak": "Give the peak of the vendor's data sheet: --peak FLOP_PER_S, or --device NAME"
    " (mfu peak --list)",
    "ledger_closes": "Do not trust the shares of mfu explain here",
    "hardware_counters": "Run it again while nothing else runs; if it fails again, do without"
    " mfu.Monitor(mode='hybrid')",
}


def checked(name, check, machine):
    line = {"name": name, "verdict": "failed", "seen": None, "expected": None, "why": None}
    try:
        line["seen"], line["expected"], good, line["why"] = check(machine)
        line["verdict"] = "passed" if good else "failed"
    except Skip as skip:
        line.update(verdict="skipped", why=str(skip))
    except Exception as error:  # a check that raises counts as failed
        line["why"] = f"{type(error).__name__}: {error}"[:300]
    if line["verdict"] == "failed":
        advice = NEXT.get(name.split("@")[0], "Do not trust it")
        line["why"] += f". {advice}, and attach the file of --output to a report"
    return line


def devices(torch):
    """The accelerators, or the CPU if there is none."""
    kind = None
    if hasattr(torch, "accelerator") and torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator().type
    elif torch.cuda.is_available():
        kind = "cuda"
    module = getattr(torch, kind, None) if kind else None
    if module is None:
        return ["cpu"]
    return [f"{kind}:{index}" for index in range(getattr(module, "device_count", lambda: 1)())]


def selftest(mfu, tell=lambda line: None):
    report: dict[str, Any] = {
        "schema": "mfu.selftest/1",
        "device": None,
        "versions": {"python": platform.python_version(), "machine": platform.platform()},
        "checks": [],
        "notes": [],
    }
    version = subprocess.run([mfu, "--version"], capture_output=True, text=True)
    report["versions"]["mfu"] = version.stdout.strip()
    try:
        torch = _torch()
    except Exception as error:  # noqa: BLE001
        report["checks"] = [
            {
                "name": name,
                "verdict": "skipped",
                "seen": None,
                "expected": None,
                "why": f"this Python has no torch: {error}",
            }
            for name, _ in CHECKS
        ]
        return report
    report["versions"].update(torch=torch.__version__, cuda=torch.version.cuda, hip=torch.version.hip)
    places = devices(torch)
    module = getattr(torch, places[0].split(":")[0], None)
    name = getattr(module, "get_device_name", None)
    report["device"] = name(0) if name is not None and places[0] != "cpu" else platform.processor() or "cpu"
    if len(places) > 1:
        report["notes"].append(f"{len(places)} devices: all but the first have the first two checks only")
    for place in places:
        machine = Machine(mfu, place)
        for name, check in CHECKS if place == places[0] else CHECKS[:2]:
            line = checked(name if place == places[0] else f"{name}@{place}", check, machine)
            report["checks"].append(line)
            tell(line)
    return report


def run_program(name, device, path):
    torch = _torch()
    try:
        facts = globals()["program_" + name](torch, torch.device(device))
    except Skip as skip:
        facts = {"skip": str(skip)}
    Path(path).write_text(json.dumps(facts))


def main():
    parser = argparse.ArgumentParser(prog="mfu doctor --selftest")
    parser.add_argument("--mfu", default="mfu")
    parser.add_argument("--output")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--program")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("facts", nargs="?")
    options = parser.parse_args()
    if options.program:
        return run_program(options.program, options.device, options.facts)

    def tell(line):
        if not options.json:
            held = f": {line['seen']}, expected {line['expected']}" if line["verdict"] != "skipped" else ""
            print(f"{line['verdict']:8} {line['name']}{held} ({line['why']})", flush=True)

    report = selftest(options.mfu, tell)
    if options.output:
        Path(options.output).write_text(json.dumps(report, indent=1) + "\n")
    if options.json:
        print(json.dumps(report))
    elif options.output:
        print(f"report   {options.output}")
    return 1 if any(line["verdict"] == "failed" for line in report["checks"]) else 0


if __name__ == "__main__":
    sys.exit(main())
