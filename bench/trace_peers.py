"""Measures what explaining a trace costs next to other analyzers: CPU seconds and memory of `mfu explain`,
HolisticTraceAnalysis and TraceLens on the same files, in one run.

    python3 -m venv peers && peers/bin/pip install HolisticTraceAnalysis git+https://github.com/AMD-AGI/TraceLens.git
    python3 bench/trace_peers.py --peers peers/bin/python --source trace.json.gz [--copies 1 30] [--rounds 3]
        [--tools mfu hta tracelens] [--stream]

The files are --source repeated --copies times. Times, step numbers and all ids are shifted, so that each copy is linked
only to itself. The bytes are those of shared/tools/make_big_trace.py, made faster. CPU seconds are user + system of the
process and its children: the best of --rounds for mfu, one run for the others, which take minutes. `anonymous` is the
highest RssAnon, read every 5 ms: memory that is not of a file. `resident` is VmHWM, which includes pages of files.
--stream writes the copies into `mfu explain -` and keeps no file. TraceLens is not on PyPI (the package tracelens there
is something else). If it cannot be imported it is left out, with a message.
"""

import argparse
import collections
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MFU = ROOT / "build" / "release" / "mfu"
IDS = (
    "correlation",
    "External id",
    "external id",
    "Ev Idx",
    "Record function id",
    "Python id",
    "Python parent id",
    "Python module id",
    "Sequence number",
    "wait_on_cuda_event_record_corr_id",
)
STEP = re.compile(r"^(ProfilerStep\s*#\s*)(\d+)(.*)$")

HTA = """
import logging, sys
logging.disable(logging.WARNING)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
for name, call in (("temporal", lambda: analysis.get_temporal_breakdown(visualize=False)),
                   ("idle", lambda: analysis.get_idle_time_breakdown(ranks=[0], visualize=False)),
                   ("overlap", lambda: analysis.get_comm_comp_overlap(visualize=False)),
                   ("kernels", lambda: analysis.get_gpu_kernel_breakdown(visualize=False))):
    try:
        call()
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
"""
TRACELENS = """
import sys
try:
    from TraceLens import TreePerfAnalyzer
except ImportError:
    sys.exit("not installed")
analyzer = TreePerfAnalyzer.from_file(sys.argv[1])
for name, call in (("timeline", analyzer.get_df_gpu_timeline), ("launchers", analyzer.get_df_kernel_launchers)):
    try:
        call()
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
"""


class Counting:
    """Passes text on and counts its bytes."""

    def __init__(self, out):
        self.out, self.size = out, 0

    def write(self, text):
        self.size += len(text)
        self.out.write(text)


class Copies:
    """The text of a trace, repeated. Each copy is one format string, filled with shifted numbers."""

    def __init__(self, path, gap_us=1000.0):
        opened = gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb")
        with opened as file:
            self.document = json.loads(file.read().decode("utf-8", "replace"))
        events = self.document.pop("traceEvents")
        timed = [event for event in events if event.get("ph") == "X" and event.get("cat") != "Trace"]
        for event in timed:
            event.update({key: float(event[key]) for key in ("ts", "dur") if isinstance(event.get(key), str)})
        self.whole = all(isinstance(event["ts"], int) for event in timed)
        self.span = (
            max(event["ts"] + event.get("dur", 0) for event in timed) - min(event["ts"] for event in timed) + gap_us
        )
        if self.whole:
            self.span = int(self.span) + 1
        ids = [
            value
            for event in events
            for key, value in (event.get("args") or {}).items()
            if key in IDS and isinstance(value, int)
        ]
        ids += [event["id"] for event in events if isinstance(event.get("id"), int)]
        self.id_step = max([i for i in ids if i < 2**31] or [0]) + 1
        steps = [int(found.group(2)) for event in events if (found := STEP.match(str(event.get("name", ""))))]
        self.steps = max(steps) - min(steps) + 1 if steps else 0
        once = [event for event in events if event.get("ph") == "M" or event.get("cat") == "Trace"]
        self.once = [self.text(event).replace("%%", "%") for event in once]
        self.times, self.ids, self.step_numbers, self.order = [], [], [], []
        self.copy = ",\n".join(
            self.text(self.marked(event))
            for event in events
            if not (event.get("ph") == "M" or event.get("cat") == "Trace")
        )
        self.events = len(events) - len(once)

    def marked(self, event):
        """Gives the event with everything that changes from copy to copy replaced by a mark."""
        event = dict(event)
        if isinstance(event.get("name"), str) and self.steps and (found := STEP.match(event["name"])):
            event["name"] = Mark(found.group(1), self.step_numbers, int(found.group(2)), found.group(3))
        if isinstance(event.get("id"), int):
            event["id"] = Mark("", self.ids, event["id"], "")
        if isinstance(event.get("ts"), (int, float)):
            event["ts"] = Mark("", self.times, event["ts"], "")
        if event.get("args"):
            event["args"] = {
                key: Mark("", self.ids, value, "") if key in IDS and isinstance(value, int) and value > 0 else value
                for key, value in event["args"].items()
            }
        return event

    def text(self, event):
        """Writes the event as Kineto does, with a %s for each mark."""
        head = ", ".join(self.member(key, value) for key, value in event.items() if key not in ("ts", "dur", "args"))
        when = [self.member(key, event[key]) for key in ("ts", "dur") if key in event]
        text = "  {\n    " + head + (",\n    " + ", ".join(when) if when else "")
        if "args" in event:
            text += (
                ",\n    \"args\": {\n      "
                + ", ".join(self.member(key, value) for key, value in event["args"].items())
                + "\n    }"
            )
        return text + "\n  }"

    def member(self, key, value):
        if not isinstance(value, Mark):
            return (json.dumps(key) + ": " + json.dumps(value)).replace("%", "%%")
        value.where.append(value.number)
        self.order.append((value.where, len(value.where) - 1))
        quote = '"' if value.where is self.step_numbers else ""
        return json.dumps(key).replace("%", "%%") + ": " + quote + value.before + "%s" + value.after + quote

    def write(self, out, copies):
        out.write(
            "{\n"
            + "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in self.document.items())
            + '  "traceEvents": [\n'
            + ",\n".join(self.once)
        )
        kinds = [0 if where is self.times else 1 if where is self.ids else 2 for where, _ in self.order]
        numbers = [where[row] for where, row in self.order]
        for copy in range(copies):
            offsets = (copy * self.span, copy * self.id_step, copy * self.steps)
            moved = [number + offsets[kind] for kind, number in zip(kinds, numbers)]
            if not self.whole:
                moved = [round(number, 3) if kind == 0 else number for kind, number in zip(kinds, moved)]
            out.write((",\n" if self.once or copy else "") + self.copy % tuple(moved))
        out.write("\n  ]\n}\n")


Mark = collections.namedtuple("Mark", "before where number after")
Run = collections.namedtuple("Run", "cpu_s wall_s resident_mb anonymous_mb said failed stopped")


def memory_kb(pid):
    """(highest resident memory, anonymous memory now). The kernel's ru_maxrss does not work here, because a child
    starts with its parent's value."""
    try:
        with open(f"/proc/{pid}/status") as file:
            status = file.read()
        return [int(re.search(field + r":\s+(\d+)", status).group(1)) for field in ("VmHWM", "RssAnon")]
    except (OSError, AttributeError):
        return [0, 0]


def run(command, feed=None, give_up_s=float("inf")):
    """Runs the command to its end, or ends it after the given time; `feed` writes its standard input."""
    start, most = time.monotonic(), [0, 0]
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            text=bool(feed),
        )
        if feed:
            threading.Thread(target=lambda: (feed(child.stdin), child.stdin.close())).start()
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            most = [max(pair) for pair in zip(most, memory_kb(child.pid))]
            if time.monotonic() - start > give_up_s:
                child.kill()
            time.sleep(0.005)
        child.returncode = status
        said.seek(0)
        words = said.read().decode("utf-8", "replace").strip().splitlines()
    return Run(
        usage.ru_utime + usage.ru_stime,
        time.monotonic() - start,
        most[0] * 1.024e-3,
        most[1] * 1.024e-3,
        words[-1] if words else "",
        status != 0,
        time.monotonic() - start > give_up_s,
    )


def versions(python):
    code = (
        "import importlib.metadata as m\nprint(*[d.name + ' ' + d.version for d in m.distributions() if d.name.lower()"
        " in ('holistictraceanalysis', 'tracelens', 'pandas')], sep=', ')"
    )
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def report(name, size_mb, result, mfu):
    against = (
        ""
        if result is mfu or mfu is None
        else f"{result.cpu_s / mfu.cpu_s:6.0f} x CPU {result.resident_mb / mfu.resident_mb:6.1f} x memory"
    )
    said = (
        "STOPPED: all of it lower bounds"
        if result.stopped
        else (
            f"FAILED: {result.said}"
            if result.failed
            else f"({result.said[:90]})" if result is not mfu and result.said else ""
        )
    )
    print(
        f"  {name:10} {size_mb:6.0f} MB {result.cpu_s:9.2f} CPU s {result.wall_s:9.2f} s {size_mb / result.cpu_s:8.0f}"
        " MB/CPU s",
        f"{result.resident_mb:8.0f} MB resident {result.anonymous_mb:8.0f} MB anonymous  {against} {said}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--peers", help="a Python that has the other analyzers")
    parser.add_argument("--tools", nargs="+", default=["mfu", "hta", "tracelens"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--give-up", type=float, default=float("inf"), metavar="SECONDS", help="stop what takes longer, and say so"
    )
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--mfu", default=str(MFU))
    parser.add_argument(
        "--folder", help="where the files are made (default: the system's temporary folder); they are removed"
    )
    parser.add_argument("--make", help="only write the first of --copies to this file")
    chosen = parser.parse_args()
    source = Copies(chosen.source)
    if chosen.make:
        with open(chosen.make, "w") as out:
            source.write(out, chosen.copies[0])
        return 0
    if chosen.peers:
        print(versions(chosen.peers))
    commands = {
        "mfu": lambda path: [chosen.mfu, "explain", path, "--json"],
        "hta": lambda path: [chosen.peers, "-c", HTA, path],
        "tracelens": lambda path: [chosen.peers, "-c", TRACELENS, path],
    }
    for copies in chosen.copies:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            path, mfu = os.path.join(folder, "trace.json"), None
            size_mb = None
            if not chosen.stream:
                with open(path, "w") as out:
                    source.write(out, copies)
                size_mb = os.path.getsize(path) / 1e6
            print(
                f"{f'{size_mb:.0f} MB' if size_mb else 'through a pipe'}, {source.events * copies} events,"
                f" {source.steps * copies} steps",
                flush=True,
            )
            for tool in chosen.tools:
                if chosen.stream:
                    passed = []
                    result = run(
                        [chosen.mfu, "explain", "-", "--json"],
                        feed=lambda out: (passed.append(Counting(out)), source.write(passed[0], copies)),
                    )
                    size_mb = passed[0].size / 1e6
                else:
                    results = [
                        run(commands[tool](path), give_up_s=chosen.give_up)
                        for _ in range(chosen.rounds if tool == "mfu" else 1)
                    ]
                    result = min(results, key=lambda each: each.cpu_s)
                mfu = mfu or (result if tool == "mfu" else None)
                report(tool, size_mb, result, mfu)
    return 0


if __name__ == "__main__":
    sys.exit(main())
