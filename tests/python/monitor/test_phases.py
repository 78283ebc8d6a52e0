"""The monitor's sinks get what each phase did; the sums equal the phases of the run exactly."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not at hand")
pytest.importorskip("transformers", reason="transformers is not at hand")
ROOT = Path(__file__).resolve().parents[3]
PHASES = ("prefill", "decode", "train", "forward")
PROGRAM = """
import json, sys, torch, transformers, mfu
from mfu import callbacks, compat
torch.manual_seed(0)
sizes = dict(hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=96, bos_token_id=1, eos_token_id=None, pad_token_id=0)
policy = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
judge = transformers.Qwen2ForSequenceClassification(transformers.Qwen2Config(**sizes, num_labels=1)).eval()
optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
tracker, meter, taken, windows = compat.TokenTracker(), callbacks.Meter(peak=1e12), [], []
meter.start()
with mfu.Monitor(model=policy, mode="estimate", peak=1e12, output_dir="out", csv="out/steps.csv",
                 mfu_calculation_freq=1, wandb=False) as monitor:
    for step in range(4):
        prompts = torch.randint(3, 96, (3, 5))
        policy.eval()
        with torch.no_grad():
            answers = policy.generate(prompts, max_new_tokens=6, do_sample=True)
            reward = judge(input_ids=answers).logits.mean()
        policy.train()
        loss = policy(input_ids=answers, labels=answers).loss * reward
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.log_step(step, batch=3, seq=11)
        taken.append(tracker.take())
        windows.append(meter.window(1))
json.dump([taken, windows], open("out/taken.json", "w"))
"""


def reported(folder, program):
    """The summary of the program, run in that folder."""
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [ROOT / "build" / "release" / "mfu", "run", "--json-file", "run.json", "--dir", "run", "--", sys.executable,
         "program.py"],
        cwd=folder, capture_output=True, text=True, timeout=400, env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((folder / "run.json").read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phases")
    report = reported(folder, PROGRAM)
    logged = [json.loads(line) for line in (folder / "out" / "training_log.json").read_text().splitlines()]
    table = list(csv.DictReader(open(folder / "out" / "steps.csv")))
    return report, logged, table, *json.loads((folder / "out" / "taken.json").read_text())


def sums(lines, phase, metric):
    return sum(float(line.get(f"mfu/{phase}/{metric}") or 0) for line in lines)


@pytest.mark.parametrize("place", ["log", "table", "token tracker", "callbacks"])
def test_sums_of_the_phases_equal_those_of_the_run(run, place):
    report, *lines = run
    lines = lines[["log", "table", "token tracker", "callbacks"].index(place)]
    rows = {each["phase"]: each for each in report["phases"] if each["passes"]}
    assert {phase: rows[phase]["tokens"] for phase in PHASES} == {
        "prefill": 4 * 3 * 5, "decode": 4 * 3 * 5, "train": 4 * 3 * 11, "forward": 4 * 3 * 11}
    for phase in PHASES:
        assert sums(lines, phase, "tokens") == rows[phase]["tokens"]
        assert sums(lines, phase, "flop") == rows[phase]["model_flop"]
        assert sums(lines, phase, "time") <= rows[phase]["time_ns"] / 1e9 + 1e-6


ITERATED = """
import json, torch, transformers
from mfu import callbacks
torch.manual_seed(0)
policy = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4, vocab_size=96,
    bos_token_id=1, eos_token_id=None, pad_token_id=0))
optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
meter, windows = callbacks.Meter(peak=1e12), []
meter.start()
for step in range(4):
    if step % 2 == 0:
        answers = policy.generate(torch.randint(3, 96, (3, 5)), max_new_tokens=6, do_sample=True)
    policy(input_ids=answers, labels=answers).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    windows.append(meter.window(1))
json.dump(windows, open("windows.json", "w"))
"""


def test_steps_that_train_again_on_the_same_answers_are_in_the_logs(tmp_path):
    """GRPO with several iterations generates in every second step only."""
    report = reported(tmp_path, ITERATED)
    windows = json.loads((tmp_path / "windows.json").read_text())
    for each in report["phases"]:
        if each["passes"]:
            assert sums(windows, each["phase"], "flop") == each["model_flop"]
    assert ["mfu/decode/tokens" in each for each in windows] == [True, False, True, False]


def test_documented_metrics_come_from_the_phases_if_nobody_counts(run):
    report, logged, *_ = run
    for line in logged:
        assert line["mfu/total_tokens_generated"] == line["mfu/decode/tokens"] == 15
        flop = line["mfu/prefill/flop"] + line["mfu/decode/flop"]
        assert line["mfu/flops_per_token"] == flop / 15
        assert line["mfu/mfu_percentage"] == pytest.approx(100 * flop / line["mfu/elapsed_time"] / 1e12)
        for phase in PHASES:
            used = 100 * line[f"mfu/{phase}/flop"] / line[f"mfu/{phase}/time"] / 1e12
            assert line[f"mfu/{phase}/mfu_percentage"] == pytest.approx(used)
