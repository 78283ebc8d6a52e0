"""Prefill and decode of transformers' own generation equal the values computed by hand, their bytes too, and their sum
equals the run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
from generating import BATCH, FFN, HEADS, HIDDEN, LAYERS, NEW, PACKED, PROMPT, SHARED, VOCAB, WINDOW  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
MFU = ROOT / "build" / "release" / "mfu"
FLOAT = 4
WIDTH = HIDDEN // HEADS
STEPS = NEW - 1  # the prompt gives the first token


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generation")
    done = subprocess.run(
        [
            MFU,
            "run",
            "--json-file",
            folder / "run.json",
            "--dir",
            folder / "run",
            "--",
            sys.executable,
            Path(__file__).with_name("generating.py"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((folder / "run.json").read_text())


@pytest.fixture
def phase(report):
    def named(phase, model):
        found = [each for each in report["phases"] if (each["phase"], each["model"]) == (phase, model)]
        assert len(found) == 1, [(each["phase"], each["model"]) for each in report["phases"]]
        return found[0]

    return named


def gated(experts=1):
    """Number of elements of all matrices, over all layers, that a token is multiplied by."""
    return LAYERS * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * SHARED * WIDTH + experts * 3 * HIDDEN * FFN)


def plain():
    return LAYERS * (4 * HIDDEN * HIDDEN + 2 * HIDDEN * FFN)


def need(matrices, tokens, rows, pairs):
    """2·matrices for each token, 2·hidden·vocabulary for each row of logits, 4·width for each pair of positions, head
    and layer."""
    return 2 * matrices * tokens + 2 * HIDDEN * VOCAB * rows + 4 * WIDTH * HEADS * LAYERS * pairs


def causal(length):
    return length * (length + 1) // 2


@pytest.fixture
def prompt_pairs(grouped_heads_are_plain):
    return PROMPT * PROMPT if grouped_heads_are_plain else causal(PROMPT)


def cached(heads=SHARED):
    """Bytes of the keys and values of one token."""
    return LAYERS * heads * 2 * WIDTH * FLOAT


def test_phases_add_up_to_the_run_to_the_digit(report):
    assert {each["phase"] for each in report["phases"]} <= {"prefill", "decode", "other"}
    for count in ("model_flop", "hardware_flop"):
        assert sum(each[count] for each in report["phases"]) == report[count]
    kinds = report["tokens_by_kind"]
    assert kinds["prompt"] + kinds["generated"] == report["tokens"]


@pytest.mark.parametrize("model", ["LlamaForCausalLM", "Qwen2ForCausalLM"])  # greedy; sampled, with a static cache
def test_greedy_and_sampled_generation_are_what_the_closed_form_says(phase, prompt_pairs, model):
    prefill, decode = phase("prefill", model), phase("decode", model)
    assert (prefill["tokens"], decode["tokens"], decode["passes"]) == (BATCH * PROMPT, BATCH * STEPS, STEPS)
    assert prefill["model_flop"] == need(gated(), BATCH * PROMPT, BATCH, BATCH * prompt_pairs)
    seen = sum(PROMPT + step for step in range(1, STEPS + 1))
    assert decode["model_flop"] == need(gated(), BATCH * STEPS, BATCH * STEPS, BATCH * seen)


def test_bytes_are_weights_once_a_pass_and_the_cache_beyond_the_new_tokens(phase):
    prefill, decode = phase("prefill", "LlamaForCausalLM"), phase("decode", "LlamaForCausalLM")
    weights = (gated() + HIDDEN * VOCAB) * FLOAT
    assert (prefill["weight_read_bytes"], decode["weight_read_bytes"]) == (weights, weights * STEPS)
    assert (prefill["cache_read_bytes"], prefill["cache_written_bytes"]) == (0, BATCH * PROMPT * cached())
    before = sum(PROMPT + step for step in range(STEPS))
    assert decode["cache_read_bytes"] == BATCH * before * cached()
    assert decode["cache_written_bytes"] == BATCH * STEPS * cached()
    assert decode["batch"] == {"median": BATCH, "largest": BATCH}
    assert decode["step_ns"]["median"] <= decode["step_ns"]["p99"]


def test_a_static_cache_moves_what_is_in_it_and_not_what_it_could_hold(phase):
    assert (
        phase("decode", "Qwen2ForCausalLM")["cache_read_bytes"]
        == phase("decode", "LlamaForCausalLM")["cache_read_bytes"]
    )


def test_beams_are_sequences(phase):
    beams = 3 * BATCH
    prefill, decode = phase("prefill", "GPT2LMHeadModel"), phase("decode", "GPT2LMHeadModel")
    assert (prefill["tokens"], decode["tokens"]) == (beams * PROMPT, beams * STEPS)
    assert prefill["model_flop"] == need(plain(), beams * PROMPT, beams, beams * causal(PROMPT))
    seen = sum(PROMPT + step for step in range(1, STEPS + 1))
    assert decode["model_flop"] == need(plain(), beams * STEPS, beams * STEPS, beams * seen)
    assert decode["cache_read_bytes"] == beams * sum(PROMPT + step for step in range(STEPS)) * cached(HEADS)


def test_a_sliding_window_is_its_window(phase):
    prefill, decode = phase("prefill", "MistralForCausalLM"), phase("decode", "MistralForCausalLM")
    area = causal(PROMPT) - causal(PROMPT - WINDOW)
    assert prefill["model_flop"] == need(gated(), BATCH * PROMPT, BATCH, BATCH * area)
    assert decode["model_flop"] == need(gated(), BATCH * STEPS, BATCH * STEPS, BATCH * STEPS * WINDOW)
    assert decode["cache_read_bytes"] == BATCH * STEPS * (WINDOW - 1) * cached()


def test_experts_are_those_that_tokens_reach(phase, prompt_pairs):
    prefill, decode = phase("prefill", "MixtralForCausalLM"), phase("decode", "MixtralForCausalLM")
    matrices = gated(experts=2) + LAYERS * HIDDEN * 4  # the router
    assert prefill["model_flop"] == need(matrices, BATCH * PROMPT, BATCH, BATCH * prompt_pairs)
    seen = sum(PROMPT + step for step in range(1, STEPS + 1))
    assert decode["model_flop"] == need(matrices, BATCH * STEPS, BATCH * STEPS, BATCH * seen)
    least, most = (gated(experts=used) + LAYERS * HIDDEN * 4 + HIDDEN * VOCAB for used in (2, 4))
    assert least * FLOAT * STEPS <= decode["weight_read_bytes"] <= most * FLOAT * STEPS


def test_an_encoder_and_what_attends_across_to_it_are_prefill_once(report):
    prefill, decode = (
        [each for each in report["phases"] if each["phase"] == phase and each["model"].startswith("Bart")][0]
        for phase in ("prefill", "decode")
    )
    assert prefill["tokens"] == BATCH * PROMPT + BATCH
    assert decode["tokens"] == BATCH * STEPS
    each = cached(HEADS)
    assert prefill["cache_written_bytes"] == (BATCH * PROMPT + BATCH) * each
    assert decode["cache_read_bytes"] == STEPS * BATCH * PROMPT * each + BATCH * causal(STEPS) * each
    assert decode["cache_written_bytes"] == BATCH * STEPS * each


def test_without_a_cache_the_first_pass_is_prefill_and_the_rest_decode(phase):
    prefill, decode = phase("prefill", "OPTForCausalLM"), phase("decode", "OPTForCausalLM")
    lengths = [PROMPT + step for step in range(1, STEPS + 1)]
    assert (prefill["tokens"], decode["tokens"]) == (BATCH * PROMPT, BATCH * sum(lengths))
    pairs = sum(causal(length) for length in lengths)
    assert decode["model_flop"] == need(plain(), BATCH * sum(lengths), BATCH * STEPS, BATCH * pairs)
    assert (prefill["cache_written_bytes"], decode["cache_read_bytes"], decode["cache_written_bytes"]) == (0, 0, 0)


def test_a_prompt_of_one_token_is_prefill(phase):
    prefill, decode = phase("prefill", "GemmaForCausalLM"), phase("decode", "GemmaForCausalLM")
    assert (prefill["tokens"], decode["tokens"], decode["passes"]) == (BATCH, BATCH * STEPS, STEPS)


def test_continuous_batching_is_split_by_sequence(phase, report):
    prefill, decode = phase("prefill", "Qwen3ForCausalLM"), phase("decode", "Qwen3ForCausalLM")
    assert (prefill["tokens"], decode["tokens"]) == (sum(PACKED), len(PACKED) * STEPS)
    seen = sum(length + step for length in PACKED for step in range(1, STEPS + 1))
    assert decode["model_flop"] == need(gated(), len(PACKED) * STEPS, len(PACKED) * STEPS, seen)
    least = need(gated(), sum(PACKED), len(PACKED), sum(map(causal, PACKED)))
    logits = prefill["model_flop"] - least  # a prompt in two pieces has a row of logits for each piece
    assert logits % (2 * HIDDEN * VOCAB) == 0 and 0 <= logits <= len(PACKED) * 2 * HIDDEN * VOCAB
    assert decode["cache_read_bytes"] == (seen - len(PACKED) * STEPS) * cached()
    assert decode["cache_written_bytes"] == len(PACKED) * STEPS * cached()
    assert prefill["cache_written_bytes"] == sum(PACKED) * cached()
    assert prefill["mixed_passes"] == decode["mixed_passes"] > 0
    assert any("in proportion to" in note for note in report["notes"])


def test_continuous_batching_without_fused_attention_is_split_by_its_scores(phase):
    """Its products compute all keys of a pass for each token, and which requests meet in a pass is up to the scheduler.
    So its attention has only a lower bound."""
    prefill, decode = phase("prefill", "PackedEager"), phase("decode", "PackedEager")
    assert (prefill["tokens"], decode["tokens"]) == (sum(PACKED), len(PACKED) * STEPS)
    seen = sum(length + step for length in PACKED for step in range(1, STEPS + 1))
    assert decode["model_flop"] >= need(gated(), len(PACKED) * STEPS, len(PACKED) * STEPS, seen)
    assert (decode["model_flop"] - need(gated(), len(PACKED) * STEPS, len(PACKED) * STEPS, 0)) % (
        4 * WIDTH * HEADS * LAYERS) == 0
    assert decode["cache_read_bytes"] == (seen - len(PACKED) * STEPS) * cached()
    assert decode["cache_written_bytes"] == len(PACKED) * STEPS * cached()
    assert prefill["cache_written_bytes"] == sum(PACKED) * cached()
    assert prefill["mixed_passes"] == decode["mixed_passes"] > 0


def test_a_program_without_steps_has_windows_and_its_passes_time(report):
    assert report["steps"] == 0 and report["step_ns"]["median"] is None
    time = sum(each["time_ns"] for each in report["phases"] if each["phase"] != "other")
    assert report["mfu"] == pytest.approx(report["model_flop"] / (time / 1e9) / report["peak_flop_per_s"], rel=1e-6)
    assert report["windows"] and all(each["duration_ns"] <= 12e9 for each in report["windows"])
    for count in ("tokens", "model_flop"):
        in_windows = sum(each[count] or 0 for window in report["windows"] for each in window["phases"])
        assert in_windows == sum(each[count] or 0 for each in report["phases"] if each["passes"])
    assert report["shares"][0]["part"] == "generation"
    assert report["idle_ns"] is not None


def test_the_rl_example_reads_as_generation_training_and_reward(tmp_path):
    done = subprocess.run(
        [
            MFU,
            "run",
            "--warmup",
            "1",  # a busy machine may find two
            "--json-file",
            tmp_path / "run.json",
            "--dir",
            tmp_path / "run",
            "--",
            sys.executable,
            ROOT / "examples" / "python" / "grpo_by_hand.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads((tmp_path / "run.json").read_text())
    assert report["steps"] == 6
    rows = {each["phase"]: each for each in report["phases"] if each["passes"]}
    assert {phase: each["tokens"] for phase, each in rows.items()} == {
        "prefill": 6 * 16 * 16, "decode": 6 * 16 * 23, "train": 6 * 16 * 40, "forward": 6 * 16 * 40}
    assert rows["forward"]["model"] == "Qwen2ForSequenceClassification"
    # the first step is warm-up
    assert all(each["kept"]["model_flop"] * 6 == each["model_flop"] * 5 for each in rows.values())
    shares = {each["part"]: each["time_fraction"] for each in report["shares"]}
    assert {"generation", "training", "forward"} <= set(shares) and abs(sum(shares.values()) - 1) < 1e-9
    assert all(each["mfu"] for each in report["shares"] if each["part"] in ("generation", "training"))
    summary = " ".join(done.stderr.split())
    assert "; reward " in summary and "generation " in summary and "of the time at MFU" in summary
    assert {each["cause"] for each in report["findings"]} & {"generation", "host", "implementation"}
