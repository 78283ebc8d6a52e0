"""If a signal kills a server, its passes still count as prefill and decode, to the digit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
from serving import NEW, PROMPTS  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
MFU = ROOT / "build" / "release" / "mfu"
HIDDEN, FFN, LAYERS, VOCAB = 64, 128, 2, 101
MATRICES = LAYERS * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN)


def need(tokens, rows, pairs):
    return 2 * MATRICES * tokens + 2 * HIDDEN * VOCAB * rows + 4 * HIDDEN * LAYERS * pairs


@pytest.mark.parametrize("engine", ["plain", "batching"])
@pytest.mark.parametrize("end, number", [("asked", 15), ("killed", 9)])
def test_a_server_that_a_signal_ends_has_all_its_phases(tmp_path, engine, end, number):
    report = tmp_path / "run.json"
    subprocess.run([MFU, "run", "--json-file", report, "--dir", tmp_path / "run", "--", sys.executable,
                    Path(__file__).with_name("serving.py"), engine, end], cwd=tmp_path, timeout=300)
    report = json.loads(report.read_text())
    assert (report["ended"]["how"], report["ended"]["signal"]) == ("signal", number)
    rows = {each["phase"]: each for each in report["phases"] if each["passes"] or each["hardware_flop"]}
    assert set(rows) == {"prefill", "decode"}
    seen = [length + step for length, new in zip(PROMPTS, NEW) for step in range(1, new)]
    assert (rows["prefill"]["tokens"], rows["decode"]["tokens"]) == (sum(PROMPTS), len(seen))
    assert (rows["prefill"]["passes"], rows["decode"]["passes"]) == (len(PROMPTS), len(seen))
    assert rows["decode"]["model_flop"] == need(len(seen), len(seen), sum(seen))
    pairs = sum(length * (length + 1) // 2 for length in PROMPTS)
    assert rows["prefill"]["model_flop"] == need(sum(PROMPTS), len(PROMPTS), pairs)
    for count in ("model_flop", "hardware_flop"):
        assert sum(each[count] for each in report["phases"]) == report[count]
