"""Compares transformers' own generation with torch's FlopCounterMode, run on prefill and decode separately: FLOPs and
tokens are equal."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

pytest.importorskip("transformers")
ROOT = Path(__file__).resolve().parents[3]
MFU = ROOT / "build" / "release" / "mfu"
CASES = Path(__file__).with_name("generation_cases.py")
# One case of each kind; the others are of the same kinds.
QUICK = ["greedy", "fused", "beams", "experts", "latent", "tied", "static", "static_fused", "t5", "bart_beams",
         "whisper", "assisted", "chunked", "turns", "image",
         "by_hand", "captions", "narrow", "uneven", "tiles", "embedded", "one_new_token"]
SLOW = ["sampled", "several", "left_padded", "beams_of_llama", "many_experts", "one_key_head", "window", "no_cache",
        "one_token_prompt", "bart", "looked_up",
        "inference_mode", "half"]
WANTED = [*QUICK, *(SLOW if os.environ.get("MFU_SLOW_TESTS") else [])]
MODELS = [*WANTED, "draft"]  # the assisted case has two models


def run(command, folder):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A run has room for about thirty models, so the cases run in two programs."""
    folder, found = tmp_path_factory.mktemp("oracle"), []
    for place, names in enumerate([WANTED[:len(QUICK)], WANTED[len(QUICK):]]):
        if names:
            report = folder / f"run{place}.json"
            run([MFU, "run", "--json-file", report, "--dir", folder / f"run{place}", "--", sys.executable, CASES,
                 *names], folder)
            found.append(json.loads(report.read_text()))
    return found


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    passes = json.loads(run([sys.executable, CASES, "--oracle", *WANTED],
                            tmp_path_factory.mktemp("counter")).splitlines()[-1])
    sums = defaultdict(lambda: {"tokens": 0, "flop": 0})
    for each in passes:
        for key in ("tokens", "flop"):
            sums[each["model"], each["phase"]][key] += each[key]
    return sums


@pytest.mark.parametrize("model", MODELS)
def test_each_half_is_what_flop_counter_mode_counts(model, reports, counted):
    rows = {each["phase"]: each for report in reports for each in report["phases"] if each["model"] == model}
    assert set(rows) == ({"prefill"} if model == "one_new_token" else {"prefill", "decode"})
    for phase, row in rows.items():
        assert {"tokens": row["tokens"], "flop": row["hardware_flop"]} == counted[model, phase], phase


def test_phases_add_up_to_the_run(reports):
    for report in reports:
        for count in ("model_flop", "hardware_flop"):
            assert sum(each[count] for each in report["phases"]) == report[count]
        assert sum(each["tokens"] or 0 for each in report["phases"]) == report["tokens"]


def test_a_cache_of_latents_holds_them_and_not_the_heads_made_of_them(reports):
    """16 latent and 8 position elements a token and layer, of 4 bytes; 2 layers, 2 sequences, 10 + 5 tokens."""
    rows = {each["phase"]: each for report in reports for each in report["phases"] if each["model"] == "latent"}
    each = 2 * (16 + 8) * 4
    assert (rows["prefill"]["cache_read_bytes"], rows["prefill"]["cache_written_bytes"]) == (0, 2 * 10 * each)
    assert rows["decode"]["cache_read_bytes"] == 2 * sum(range(10, 15)) * each
    assert rows["decode"]["cache_written_bytes"] == 2 * 5 * each


def test_a_static_cache_without_a_fused_attention_moves_what_is_in_it(reports):
    rows = {(each["model"], each["phase"]): each for report in reports for each in report["phases"]}
    for phase in ("prefill", "decode"):
        for count in ("cache_read_bytes", "cache_written_bytes"):
            assert rows["static", phase][count] == rows["greedy", phase][count]
