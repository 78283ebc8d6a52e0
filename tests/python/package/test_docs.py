"""Runs each example of docs/python.md in its own process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

mfu = pytest.importorskip("mfu")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: re.sub(r"\W+", " ", text)[:40].strip())
def test_example(example, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
    )
    assert done.returncode == 0 and done.stdout, done.stderr


def test_there_are_examples():
    assert len(EXAMPLES) == 5
