"""Runs the four modes side by side on one real model and compares what each says of a step with the observer's own
count and with `mfu flops`."""

import json
import subprocess
import sys
import warnings

import pytest

import mfu

torch = pytest.importorskip("torch", reason="torch is not at hand")
transformers = pytest.importorskip("transformers", reason="transformers is not at hand")
LENGTHS = [32, 64, 128, 48, 96, 80, 32, 128]  # lengths that differ by a factor of 4


def model_of(attention):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=128,
        intermediate_size=224,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=128,
        max_position_embeddings=512,
        attn_implementation=attention,
    )
    return transformers.LlamaForCausalLM(config)


def train(model, batch, seq):
    ids = torch.ones(batch, seq, dtype=torch.long)
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    model.zero_grad()
    return loss.detach()


def run(model, folder, mode, lengths=LENGTHS, **more):
    """Trains with the monitor and counts each step with mfu.count() too."""
    counts = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with mfu.Monitor(model=model, mode=mode, peak=1e12, output_dir=folder, wandb=False, **more) as monitor:
            for step, seq in enumerate(lengths):
                with mfu.count(modules=False) as counted:
                    with monitor.step(step, batch=2, seq=seq) as at:
                        at.loss = train(model, 2, seq)
                counts.append(counted.model_flop)
                assert monitor.flush()
    return (
        [json.loads(line) for line in open(folder / "training_log.json")],
        counts,
        [str(each.message) for each in said],
    )


@pytest.fixture(scope="module", params=["sdpa", "eager"])
def model(request):
    return model_of(request.param)


def test_profiler_is_the_observers_count(model, tmp_path):
    lines, counts, _ = run(model, tmp_path, "profiler", flops_profile_freq=1)
    assert [line["model_flop"] for line in lines] == counts
    assert {line["source"] for line in lines} == {"counted"}
    assert all(
        line["perf/mfu"] == pytest.approx(flop / line["perf/step_time"] / 1e12) for line, flop in zip(lines, counts)
    )


def test_profiler_leaves_the_steps_between_alone(model, tmp_path):
    lines, counts, _ = run(model, tmp_path, "profiler", flops_profile_freq=4)
    assert [line["step"] for line in lines if "perf/mfu" in line] == [0, 4]
    assert [lines[0]["model_flop"], lines[4]["model_flop"]] == [counts[0], counts[4]]


def test_smart_needs_one_calibration_for_lengths_four_times_apart(model, tmp_path):
    lines, counts, _ = run(model, tmp_path, "smart")
    assert lines[0]["source"] == "counted" and lines[0]["model_flop"] == counts[0]
    assert [line["source"] for line in lines[1:]] == ["calibrated"] * (len(lines) - 1)
    for line, counted in zip(lines[1:], counts[1:]):
        assert line["model_flop"] == pytest.approx(counted, rel=1e-3)
        assert line["calibration"]["terms_apart"] and line["calibration"]["readings"] == 1


def test_estimate_is_what_mfu_flops_says(model, tmp_path):
    lines, _, _ = run(model, tmp_path, "estimate")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**model.config.to_dict(), "architectures": ["LlamaForCausalLM"]}))
    for line, seq in list(zip(lines, LENGTHS))[:3]:
        said = subprocess.run(
            [sys.executable, "-m", "mfu", "flops", str(config), "--batch", "2", "--seq", str(seq), "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert line["model_flop"] == json.loads(said.stdout)["model_flop"] and line["source"] == "estimated"


def test_hybrid_falls_back_here_and_says_so(model, tmp_path):
    lines, counts, said = run(model, tmp_path, "hybrid", flops_profile_freq=4)
    assert [line["source"] for line in lines] == ["counted", "estimated", "estimated", "estimated"] * 2
    assert [lines[0]["model_flop"], lines[4]["model_flop"]] == [counts[0], counts[4]]
    assert all(any("instead" in note for note in line["notes"]) for line in lines)
    assert any("instead" in text for text in said)


def test_what_runs_beside_a_measured_step_costs_nothing_between(tmp_path):
    """Between two measurements, no hook of ours is on the program."""
    from mfu._load import observer

    model = model_of("sdpa")
    with mfu.Monitor(model=model, mode="profiler", flops_profile_freq=4, wandb=False, output_dir=tmp_path) as monitor:
        with monitor.step(0, batch=1, seq=8):
            train(model, 1, 8)
            assert observer().library().active()
        with monitor.step(1, batch=1, seq=8) as at:
            train(model, 1, 8)
            assert not observer().library().active() and not at.measured


def test_padded_rows_are_counted_as_they_ran_and_needed_as_they_are(tmp_path):
    model = model_of("sdpa")
    mask = torch.ones(2, 64, dtype=torch.long)
    mask[1, 40:] = 0
    with mfu.Monitor(model=model, mode="smart", peak=1e12, output_dir=tmp_path, wandb=False) as monitor:
        for step in range(3):
            with mfu.count(modules=False) as counted:
                with monitor.step(step, attention_mask=mask) as at:
                    ids = torch.ones(2, 64, dtype=torch.long)
                    loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss
                    loss.backward()
                    at.loss = loss
            monitor.flush()
    lines = [json.loads(line) for line in open(tmp_path / "training_log.json")]
    assert [line["source"] for line in lines] == ["counted", "calibrated", "calibrated"]
    assert lines[1]["model_flop"] == pytest.approx(counted.model_flop, rel=1e-3)
    assert lines[1]["perf/tokens_per_second"] * lines[1]["perf/step_time"] == pytest.approx(104)
