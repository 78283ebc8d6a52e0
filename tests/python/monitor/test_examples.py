"""Runs each program of examples/python as a user would, and the examples of docs/monitor.md."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not at hand")
pytest.importorskip("transformers", reason="transformers is not at hand")
ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted(
    path for path in (ROOT / "examples" / "python").glob("*.py") if path.stem not in ("grpo_by_hand", "tiny_gpt")
)
PAGE = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "monitor.md").read_text(), re.S)


def run(command, folder):
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=400, cwd=folder,
                          env=dict(os.environ, OMP_NUM_THREADS="1", WANDB_MODE="disabled"))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, tmp_path):
    said = run([str(example), str(tmp_path / "out")], tmp_path)
    assert re.search(r"MFU \d+\.\d%", said), said
    lines = [json.loads(line) for line in open(tmp_path / "out" / "training_log.json")]
    assert len(lines) >= 6 and all("perf/mfu" in line for line in lines[1:-1])
    if example.stem == "rl_loop":
        periods = [line for line in lines if "mfu/total_tokens_generated" in line]
        assert periods and all("mfu/mfu_percentage" in line for line in periods)
    else:
        assert {line["source"] for line in lines} == {"counted", "calibrated"}


def test_there_are_examples():
    assert [path.stem for path in EXAMPLES] == ["by_hand", "hf_trainer", "rl_loop"] and len(PAGE) == 2


@pytest.mark.parametrize("example", PAGE, ids=["loop", "generation"])
def test_page(example, tmp_path):
    run(["-c", example], tmp_path)
    assert (tmp_path / "outputs" / "training_log.json").stat().st_size > 0
