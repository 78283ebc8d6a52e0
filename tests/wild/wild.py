"""Real entry points, library code unmodified, under `mfu run`: FLOPs against torch's own counter, steps, tokens and what passes were for.

    python tests/wild/wild.py [NAME…] [--docs]      all, or those with NAME in their name; --docs writes docs/wild.md from the results

Each entry is a file beside this one: the first lines of its docstring say what it is, `NEEDS` which packages it imports, `EXPECT` what the summary must say,
`WHY` explains a difference to FlopCounterMode, by name. It runs twice: under `mfu run`, and under FlopCounterMode alone.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))
DRIVER = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
COUNTER = """
import runpy, sys
sys.argv = sys.argv[1:]
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as mode:
    runpy.run_path(sys.argv[0], run_name="__main__")
open(sys.argv[1], "w").write(str(mode.get_total_flops()))
"""


def entries(wanted):
    for path in sorted(HERE.glob("*_*.py")):
        if not wanted or any(name in path.stem for name in wanted):
            yield path


def facts(path):
    """Its docstring and its constants, without running it."""
    import ast

    tree = ast.parse(path.read_text())
    found = {"what": ast.get_docstring(tree).splitlines()[0], "NEEDS": [], "EXPECT": {}, "WHY": ""}
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in found:
            found[node.targets[0].id] = eval(compile(ast.Expression(node.value), str(path), "eval"), {"__builtins__": {"sum": sum, "range": range}})
    return found


def run(path):
    """What came of an entry: a row for the table, and what is wrong."""
    known = facts(path)
    missing = [name for name in known["NEEDS"] if importlib.util.find_spec(name) is None]
    if missing:
        return {"name": path.stem, **known, "skipped": "not installed: " + ", ".join(missing)}, []
    environment = dict(os.environ, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder) / "summary.json"
        done = subprocess.run([MFU, "run", "--dir", f"{folder}/run", "--json-file", str(summary), "--", sys.executable, str(path), f"{folder}/unused"],
                              capture_output=True, text=True, cwd=folder, env=environment, timeout=1200)
        if done.returncode != 0:
            return {"name": path.stem, **known, "skipped": "failed"}, [done.stderr[-1500:]]
        report = json.loads(summary.read_text())
        counted = Path(folder) / "counted"
        alone = subprocess.run([sys.executable, "-c", COUNTER, str(path), str(counted)], capture_output=True, text=True, cwd=folder, env=environment, timeout=1800)
        oracle = int(counted.read_text()) if counted.exists() else None
    row = {"name": path.stem, **known, "report": report, "oracle": oracle, "alone": alone.returncode}
    return row, problems(row)


def phases_of(report):
    found = {}
    for phase in report["phases"]:
        if phase["passes"]:
            found[phase["phase"]] = found.get(phase["phase"], 0) + phase["passes"]
    return found


def problems(row):
    report, wrong = row["report"], []
    for key in ("model_flop", "hardware_flop"):
        if sum(phase[key] for phase in report["phases"]) != report[key]:
            wrong.append(f"{key}: the phases do not add up to the run")
    if row["oracle"] is not None and row["oracle"] != report["hardware_flop"] and not row["WHY"]:
        wrong.append(f"FLOPs: {report['hardware_flop']} counted, FlopCounterMode says {row['oracle']}, and nothing explains it")
    seen = {"steps": report["steps"], "tokens": report["tokens"], "samples": report["samples"], "kinds": report["tokens_by_kind"], "phases": phases_of(report)}
    for key, value in row["EXPECT"].items():
        got = seen[key]
        if key == "phases" and isinstance(value, list):
            got = sorted(got)
        if got != value:
            wrong.append(f"{key}: {value} expected, {got} seen")
    return wrong


def table(rows):
    lines = ["# In the wild", "",
             "Real entry points of libraries, their code unmodified, weights random from configs, data made on the spot. `./test --wild` runs them and writes this page",
             "(large installs, so not every day). *FLOPs* are what was executed; *counter* is torch's FlopCounterMode on the same program.", "",
             "| entry point | steps | tokens | passes | FLOPs | counter | difference |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        if "skipped" in row:
            lines.append(f"| {row['what']} | | | | | | {row['skipped']} |")
            continue
        report = row["report"]
        passes = ", ".join(f"{count} {phase}" for phase, count in phases_of(report).items())
        same = row["oracle"] == report["hardware_flop"]
        lines.append(f"| {row['what']} | {report['steps']} | {report['tokens'] if report['tokens'] is not None else 'none'} | {passes} | {report['hardware_flop']:,} | "
                     f"{row['oracle']:,} | {'none' if same else row['WHY']} |" if row["oracle"] is not None else
                     f"| {row['what']} | {report['steps']} | {report['tokens']} | {passes} | {report['hardware_flop']:,} | did not run | {row['WHY']} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args()
    rows, failed = [], 0
    for path in entries(options.names):
        row, wrong = run(path)
        rows.append(row)
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'skipped' if 'skipped' in row else 'passed'} {row['name']} {row.get('skipped', '')}", flush=True)
        for each in wrong:
            print("    " + each.replace("\n", "\n    "), flush=True)
    if options.docs:
        (ROOT / "docs" / "wild.md").write_text(table(rows))
    print(f"{len(rows) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
