"""clang-tidy over our own sources; what has not changed since it was clean is not looked at again."""

import hashlib
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "release"


def fingerprint(source, headers):
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + headers + source.read_bytes())
    return digest.hexdigest()


def tests():
    def lint():
        try:
            subprocess.run(["clang-tidy-19", "--version"], capture_output=True, check=True)
        except FileNotFoundError:
            return "clang-tidy-19 is not installed (Debian: apt-get install clang-tidy-19)"
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        sources = sorted({Path(command["file"]) for command in commands
                          if not command["file"].endswith("_test.cc") and "/build/" not in command["file"]
                          and "/fake/" not in command["file"]})
        headers = b"".join(path.read_bytes() for folder in ("include", "src", "apps") for path in sorted((ROOT / folder).rglob("*.h")))
        cache = ROOT / "build" / "clang-tidy-clean"
        clean = set(cache.read_text().split()) if cache.exists() else set()

        def check(source):
            mark = fingerprint(source, headers)
            if mark in clean:
                return mark, ""
            run = subprocess.run(["clang-tidy-19", "-p", str(BUILD), "--quiet", str(source)], capture_output=True, text=True)
            return (mark, "") if run.returncode == 0 else (None, run.stdout)

        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(check, sources))
        cache.write_text("\n".join(mark for mark, _ in results if mark))
        return "\n".join(output for _, output in results if output) or None

    yield "lint/sources", lint
