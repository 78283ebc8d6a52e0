"""Runs real entry points of unmodified libraries under `mfu run`, and checks FLOPs (by torch's counter), steps, tokens
and passes.

    python tests/wild/wild.py [NAME…] [--docs] [--kept] [--jobs N]    all, or those with NAME in their name

--docs writes docs/wild.md; with names, only their rows. --kept uses an entry's last result if the entry has not changed
since.

Each entry is a file next to this one; shared.py has what several of them share. The first line of its docstring says
what it is, `NEEDS` what it imports, `EXPECT` what the summary must say, and `WHY` explains what is special. It runs
twice: under `mfu run`, and under FlopCounterMode alone. Both results are kept in build/wild, the second one as long as
the entry and torch stay the same.

Differences to FlopCounterMode are listed by operator. Each operator that differs must equal what counter.py expects,
which has formulas for what torch's counter leaves out (REASONS). Any other difference needs the entry's own `WHY`.
"""

import argparse
import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEPT = ROOT / "build" / "wild"
# A folder with torchvision, for entries that need it. Its wheel disturbs other libraries beside a torch for the CPU.
VISION = os.environ.get("MFU_WILD_VISION", "")
MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))
# Why FlopCounterMode differs, by operator. Each reason is proved: what mfu counts equals what counter.py expects.
REASONS = {
    "flash_attention_for_cpu": "fused attention on the CPU: the counter has no formula",
    "mkldnn_rnn_layer": "recurrent layers: the counter has no formula",
    "convolution_backward": "grouped convolutions: the counter leaves the groups out of the weight's gradient",
    "aten::mv": "products with vectors: the counter has no formula",
    "aten::addmv": "products with vectors: the counter has no formula",
    "aten::dot": "products with vectors: the counter has no formula",
    "aten::vdot": "products with vectors: the counter has no formula",
    "aten::addmm": "products added up in place (addmm_): the counter has no formula",
    "aten::baddbmm": "products added up in place (baddbmm_): the counter has no formula",
}


def entries(wanted):
    for path in sorted(HERE.glob("*_*.py")):
        if not wanted or any(name in path.stem for name in wanted):
            yield path


def facts(path):
    """The docstring and the constants of an entry, without running it."""
    tree = ast.parse(path.read_text())
    found = {"what": ast.get_docstring(tree).splitlines()[0], "NEEDS": [], "EXPECT": {}, "WHY": "", "ALONE": True}
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in found:
            known = compile(ast.Expression(node.value), str(path), "eval")
            found[node.targets[0].id] = eval(known, {"__builtins__": {"sum": sum, "range": range}})
    return found


def counter_says(path, environment):
    """FLOPs by operator, as torch's counter gives them and as they should be (counter.py); None if the program cannot
    run under it."""
    ours = (path, HERE / "shared.py", HERE / "counter.py")
    text = "".join(each.read_text() for each in ours) + importlib.metadata.version("torch")
    kept = KEPT / f"{path.stem}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(HERE / "counter.py"), str(path), str(kept)], capture_output=True,
                       cwd=folder, env=environment, timeout=1800)
    return json.loads(kept.read_text()) if kept.exists() else None


def run(path, kept=False):
    """The result of an entry: a row for the table, and what is wrong."""
    known = facts(path)
    there = VISION and Path(VISION, "torchvision").exists()
    missing = [name for name in known["NEEDS"]
               if importlib.util.find_spec(name) is None and not (there and name == "torchvision")]
    if missing:
        return {"name": path.stem, **known, "skipped": "not installed: " + ", ".join(missing)}, []
    KEPT.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error",
                       TOKENIZERS_PARALLELISM="false")
    if there and "torchvision" in known["NEEDS"]:
        environment["PYTHONPATH"] = VISION
    summary = KEPT / f"{path.stem}.json"
    changed = max(each.stat().st_mtime for each in (path, HERE / "shared.py"))
    if kept and summary.exists() and summary.stat().st_mtime > changed:
        return judged(path, known, summary, environment)
    with tempfile.TemporaryDirectory() as folder:
        command = [MFU, "run", "--dir", f"{folder}/run", "--json-file", str(summary), "--"]
        done = subprocess.run([*command, sys.executable, str(path), f"{folder}/unused"], capture_output=True, text=True,
                              cwd=folder, env=environment, timeout=1200)
    if done.returncode != 0:
        summary.unlink(missing_ok=True)
        return {"name": path.stem, **known, "skipped": "failed"}, ["\n".join(done.stderr.splitlines()[-12:])]
    return judged(path, known, summary, environment)


def tried(path, kept):
    try:
        return run(path, kept)
    except subprocess.TimeoutExpired:
        return {"name": path.stem, **facts(path), "skipped": "failed"}, ["it did not end in time"]


def judged(path, known, summary, environment):
    report = json.loads(summary.read_text())
    row = {"name": path.stem, **known, "report": report}
    said = counter_says(path, environment) if known["ALONE"] else None
    row["counter"], row["expected"] = (said["counter"], said["expected"]) if said else (None, None)
    row["reasons"], unexplained = differences(row)
    return row, unexplained + problems(row)


def differences(row):
    """Why FLOPs differ, and the differences that nothing explains."""
    if row["counter"] is None:
        return ["the program does not run under FlopCounterMode"] if not row["WHY"] else [row["WHY"]], []
    ours = {name: flop for name, flop in row["report"]["flop_by_operator"].items() if flop}
    reasons, unexplained = set(), []
    for name in sorted(set(ours) | set(row["counter"]) | set(row["expected"])):
        mine, theirs, expected = (each.get(name, 0) for each in (ours, row["counter"], row["expected"]))
        if mine == theirs:
            continue
        known = next((words for part, words in REASONS.items() if part in name), "")
        reason = known if mine == expected else row["WHY"]
        if reason:
            reasons.add(reason)
        else:
            unexplained.append(f"{name}: {mine} counted, FlopCounterMode says {theirs}, expected are {expected}, "
                               "and nothing explains it")
    return sorted(reasons), unexplained


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
    seen = {"steps": report["steps"], "tokens": report["tokens"], "samples": report["samples"],
            "kinds": report["tokens_by_kind"], "phases": phases_of(report), "model_flop": report["model_flop"]}
    seen["flop_of_phases"] = {each["phase"]: each["model_flop"] for each in report["phases"]
                              if each["phase"] in row["EXPECT"].get("flop_of_phases", ())}
    seen["padded"] = (report["tokens_by_kind"] or {}).get("padded")
    for key, value in row["EXPECT"].items():
        got = seen[key]
        if key == "phases" and isinstance(value, list):
            got = sorted(got)
        if got != value:
            wrong.append(f"{key}: {value} expected, {got} seen")
    return wrong


def rows_of_page(text):
    """The rows of the present table, by entry."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return {line[2:].split(" | ")[0]: line for line in lines[1:]}


def table(rows, before):
    """The page up to its second part. An entry that did not run this time keeps its row from `before`."""
    by_name = {row["name"]: row for row in rows}
    known = {path.stem: facts(path)["what"] for path in entries([])}
    rows = [by_name.get(name, {"before": before.get(what)}) for name, what in known.items()]
    rows = [row for row in rows if row.get("before", "") is not None]
    done = [row for row in rows if "skipped" not in row]
    lines = [
        "# In the wild", "",
        "Real entry points of libraries, their code unmodified, weights random from configs, data made on the spot.",
        "`./test --wild` runs them and writes this page (large installs, so not every day). *FLOPs* are what was",
        "executed; *counter* is torch's FlopCounterMode on the same program. Operators are compared one by one. Where",
        "the counter has no formula, or one that leaves something out, tests/wild/counter.py has its own, and what mfu",
        "counts equals that to the last digit: the column *difference* says which operators these are.", "",
        f"{len(done)} entry points ran, {len(rows) - len(done)} did not.", "",
        "| entry point | steps | tokens | passes | FLOPs | counter | difference |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        if "before" in row:
            lines.append(row["before"])
            continue
        if "skipped" in row:
            lines.append(f"| {row['what']} | | | | | | {row['skipped']} |")
            continue
        report = row["report"]
        passes = ", ".join(f"{count} {phase}" for phase, count in phases_of(report).items())
        tokens = "none" if report["tokens"] is None else f"{report['tokens']:,}"
        padded = (report["tokens_by_kind"] or {}).get("padded")
        if padded:
            tokens += f" ({padded:,} padded)"
        why = "; ".join(row["reasons"] + ["**wrong:** " + each for each in row["wrong"]]) or "none"
        counter = "did not run" if row["counter"] is None else f"{sum(row['counter'].values()):,}"
        lines.append(f"| {row['what']} | {report['steps']} | {tokens} | {passes} | {report['hardware_flop']:,} | "
                     f"{counter} | {why} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    rows, failed = [], 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for row, wrong in pool.map(lambda path: tried(path, options.kept), entries(options.names)):
            row["wrong"] = wrong
            rows.append(row)
            failed += bool(wrong)
            verdict = "FAILED" if wrong else "skipped" if "skipped" in row else "passed"
            print(f"{verdict} {row['name']} {row.get('skipped', '')}", flush=True)
            for each in wrong:
                print("    " + each.replace("\n", "\n    "), flush=True)
    if options.docs:
        page = ROOT / "docs" / "wild.md"
        rest = page.read_text().partition("## Whoever imports first")  # imports.py writes that part
        before = rows_of_page(rest[0]) if options.names else {}
        page.write_text(table(rows, before) + "".join(("\n", *rest[1:]) if rest[1] else ()))
    print(f"{len(rows) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
