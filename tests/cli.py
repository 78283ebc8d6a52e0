"""Runs tests/cli/*.test: files with commands and what they must print.

    # a comment
    file mine.csv            makes this file; the lines with '|' below are its content
    |device,dtype
    env NO_COLOR=1           sets a variable for the commands below
    $ mfu peak h100          runs a shell command; the lines below say what must hold
    exit 2                   its exit status (0 if this line is missing)
    > text                   standard output contains it      !> text   does not contain it
    2> text                  standard error contains it       !2> text  does not contain it
    = text                   the lines with = are the whole of standard output
    json devices.0.device.name == "H100"      a value in the JSON on standard output (also <, >, and ~ for within 1%)

Each file runs in an empty folder, which is also its home.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"


class Case:
    def __init__(self, command, line, environment):
        self.command, self.line, self.environment = command, line, dict(environment)
        self.status, self.checks, self.exact = 0, [], []


def parse(path):
    files, cases, environment, writing = {}, [], {}, None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        word, _, rest = line.partition(" ")
        if line.startswith("|"):
            files[writing] += line[1:] + "\n"
        elif not line.strip() or word == "#":
            continue
        elif word == "file":
            writing = rest
            files[writing] = ""
        elif word == "env":
            name, _, value = rest.partition("=")
            environment[name] = value
        elif word == "$":
            cases.append(Case(rest, number, environment))
        elif word == "exit":
            cases[-1].status = int(rest)
        elif word == "=" or line == "=":
            cases[-1].exact.append(rest)
        elif word in (">", "!>", "2>", "!2>", "json"):
            cases[-1].checks.append((word, rest))
        else:
            raise ValueError(f"{path}:{number}: not understood: {line}")
    return files, cases


def value_at(document, path):
    for part in path.split("."):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def json_problem(output, check):
    path, operator, expected = check.split(" ", 2)
    actual, expected = value_at(json.loads(output), path), json.loads(expected)
    good = {"==": lambda: actual == expected, "<": lambda: actual < expected, ">": lambda: actual > expected,
            "~": lambda: abs(actual - expected) <= abs(expected) * 0.01}[operator]()
    return None if good else f"json {path} is {actual!r}, not {operator} {expected!r}"


def problem_of(case, run):
    problems = []
    if run.returncode != case.status:
        problems.append(f"exit status {run.returncode}, not {case.status}")
    for word, text in case.checks:
        if word == "json":
            problems.append(json_problem(run.stdout, text))
            continue
        stream = run.stderr if "2" in word else run.stdout
        if (text in stream) == word.startswith("!"):
            problems.append(f"{word} {text}")
    if case.exact and run.stdout != "\n".join(case.exact) + "\n":
        problems.append("standard output is not exactly as written")
    problems = [problem for problem in problems if problem]
    if not problems:
        return None
    return "\n".join(problems + ["--- stdout", run.stdout, "--- stderr", run.stderr])


def run_file(path):
    files, cases = parse(path)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        base = {
            "PATH": f"{BUILD}:{os.environ['PATH']}",
            "HOME": folder,
            "LANG": "C.UTF-8",
            "COLUMNS": "100",
            "MFU_NVML": "none.so",
            "MFU_AMD_SMI": "none.so",
            "MFU_ROCM_SMI": "none.so",
            "TESTS": str(ROOT / "tests"),
            "BUILD": str(BUILD),
            "MFU_PYTHON": os.environ.get("MFU_PYTHON", "python3"),
        }
        for case in cases:
            run = subprocess.run(["bash", "-c", case.command], cwd=folder, env=base | case.environment, text=True,
                                 stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
            yield f"cli/{path.name}:{case.line} {case.command}", problem_of(case, run)


def tests():
    for path in sorted((ROOT / "tests" / "cli").glob("*.test")):
        yield from run_file(path)
