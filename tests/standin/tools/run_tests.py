"""Replaces tests/run.py: says whether ./test brought everything that its tests need."""

import re
import sys
from pathlib import Path

tree = Path(__file__).resolve().parent.parent
build, problems = tree / "build" / "release", []
for line in (build / "tests.txt").read_text().splitlines():
    kind, name = line.split(" ", 1)
    if kind == "missing" or not (build / name).exists() or (build / f"{name}.half").exists():
        problems.append(line)
site = next((tree / ".venv").glob("lib/python3*/site-packages"))
for name in "torch nanobind scikit_build_core pytest mypy lightning".split():
    metadata = list(site.glob(f"{name}-*.dist-info"))
    if not metadata or not (metadata[0] / "RECORD").exists() or (site / name / "__init__.py").read_text():
        problems.append(f"{name} is not in .venv")
print(f"{int(not problems)} passed, {len(problems)} failed", *problems)
sys.exit(bool(problems))
