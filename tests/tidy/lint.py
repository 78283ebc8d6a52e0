"""Runs clang-tidy over our own sources. A source that was clean and has not changed since, with the headers it
includes, is not checked again."""

import hashlib
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "release"
COMMANDS = ROOT / "build" / "lint"
CACHE = ROOT / "build" / "clang-tidy-clean"
# From PyPI: it skips system headers. Debian's version 19 reads them and takes seven times as long.
TOOL = ROOT / ".venv" / "bin" / "clang-tidy"
INCLUDE = re.compile(rb'^#include ["<]([^">]+)[">]', re.M)


@lru_cache(None)
def own_headers(source):
    """The project's headers that a file includes, directly or indirectly."""
    found, waiting = set(), [source]
    while waiting:
        path = waiting.pop()
        for name in INCLUDE.findall(path.read_bytes()):
            for folder in (path.parent, ROOT / "include", ROOT / "src", ROOT):
                header = (folder / name.decode()).resolve()
                if header.is_file() and header not in found:
                    found.add(header)
                    waiting.append(header)
    return sorted(found)


def fingerprint(source):
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for path in [source, *own_headers(source)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def compile_commands():
    """The compile command of each source. The release build compiles several sources as one, through a file that
    includes them."""
    for command in json.loads((BUILD / "compile_commands.json").read_text()):
        file = Path(command["file"])
        together = (
            re.findall(r'^#include "([^"]+)"', file.read_text(), re.M)
            if file.parent.name == "Unity"
            else [command["file"]]
        )
        for source in together:
            yield dict(command, file=source, command=command["command"].replace(command["file"], source))


def sources():
    commands = list(compile_commands())
    COMMANDS.mkdir(exist_ok=True)
    (COMMANDS / "compile_commands.json").write_text(json.dumps(commands))
    files = {Path(command["file"]) for command in commands}
    return sorted(path for path in files if path.is_relative_to(ROOT) and not path.name.endswith("_test.cc")
                  and not {"build", "fake", ".venv"} & set(path.relative_to(ROOT).parts))


def check(source):
    run = subprocess.run([TOOL, "-p", str(COMMANDS), "--quiet", str(source)], capture_output=True, text=True)
    if run.returncode:
        return run.stdout or run.stderr or f"{source}: clang-tidy left with {run.returncode} and said nothing"
    with CACHE.open("a") as marks:
        marks.write(fingerprint(source) + "\n")
    return ""


def tests():
    def lint():
        try:
            subprocess.run([TOOL, "--version"], capture_output=True, check=True)
        except FileNotFoundError:
            return "clang-tidy is not installed (.venv/bin/pip install clang-tidy==23.1.4)"
        clean = set(CACHE.read_text().split()) if CACHE.exists() else set()
        changed = [source for source in sources() if fingerprint(source) not in clean]
        findings = []
        with ThreadPoolExecutor(2) as pool:
            for done, (source, finding) in enumerate(zip(changed, pool.map(check, changed)), 1):
                findings += [finding] if finding else []
                print(
                    f"clang-tidy {done} of {len(changed)}: {source.relative_to(ROOT)}",
                    *filter(None, [finding]),
                    sep="\n",
                    file=sys.stderr,
                    flush=True,
                )
        return "\n".join(findings) or None

    yield "lint/sources", lint
