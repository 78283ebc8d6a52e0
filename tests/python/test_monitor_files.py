"""Reads what the monitor writes with the libraries that people use for it."""

import csv
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROBE = os.environ.get("MFU_MONITOR_PROBE", str(ROOT / "build" / "release" / "src" / "monitor" / "mfu_monitor_probe"))
MFU = os.environ.get("MFU_COMMAND", str(ROOT / "build" / "release" / "mfu"))
DOCUMENTED = [
    "perf/mfu",
    "perf/mfu_percent",
    "perf/step_time",
    "perf/steps_per_second",
    "perf/tokens_per_second",
    "perf/samples_per_second",
    "mfu/tokens_per_second",
    "mfu/flops_per_token",
    "mfu/mfu_percentage",
    "mfu/total_tokens_generated",
    "mfu/elapsed_time",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("monitor")
    subprocess.run([PROBE, str(folder)], check=True, timeout=120, env=dict(os.environ, MFU_REGION_DIR=str(folder)))
    return folder


@pytest.fixture(scope="module")
def lines(run):
    return [json.loads(line) for line in (run / "training_log.json").read_text().splitlines()]


def test_the_log_has_every_documented_name(lines):
    assert [line["step"] for line in lines] == list(range(25))
    seen = set().union(*lines)
    assert not [name for name in DOCUMENTED if name not in seen]
    assert {line["source"] for line in lines} == {"counted", "calibrated"}
    assert all(line["convention"] == "exact" and line["peak_flop_per_s"] == 5e12 for line in lines)


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    found = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags["scalars"]}
    for tag in tags["tensors"]:  # TensorBoard converts scalars to this since 2.0
        from tensorboard.util import tensor_util
        found[tag] = [
            (event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)
        ]
    return found, events


def test_tensorboard_reads_the_same_numbers(run, lines):
    found, events = scalars(run / "board")
    for name in DOCUMENTED + ["training/loss"]:
        expected = [
            (line["step"], line[name.removeprefix("training/")])
            for line in lines
            if name.removeprefix("training/") in line
        ]
        assert expected and len(found[name]) == len(expected), name
        for (step, value), (wanted_step, wanted) in zip(found[name], expected):
            assert step == wanted_step
            assert value == pytest.approx(wanted, rel=1e-6)  # an event holds a 32-bit float
    description = events.SummaryMetadata("perf/mfu").summary_description
    assert "convention exact" in description and "made up" in description


def test_csv_reads_the_same_numbers(run, lines):
    with open(run / "steps.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines):
        assert int(row["step"]) == line["step"] and row["peak_source"] == 'made up, "quoted"'
        for name in DOCUMENTED:
            assert (float(row[name]) if row[name] else None) == line.get(name)


def test_the_metrics_file_is_well_formed(run, lines):
    text = (run / "mfu.prom").read_text()
    typed = set(re.findall(r"^# TYPE (\S+) gauge$", text, re.M))
    helped = set(re.findall(r"^# HELP (\S+) \S", text, re.M))
    samples = re.findall(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)+)\})? (\S+)$', text, re.M)
    assert {name for name, _, _ in samples} == typed == helped
    assert len(samples) == len([line for line in text.splitlines() if not line.startswith("#")])
    values = {name: float(value) for name, _, value in samples}
    assert values["mfu_step"] == 24 and values["mfu_perf_mfu"] == lines[-1]["perf/mfu"]


def test_a_killed_run_leaves_files_their_readers_accept(tmp_path):
    for round_number in range(5):
        folder = tmp_path / str(round_number)
        folder.mkdir()
        process = subprocess.Popen([PROBE, str(folder), "forever"], env=dict(os.environ, MFU_REGION_DIR=str(folder)))
        for _ in range(600):
            time.sleep(0.05)
            if list(folder.glob("board/*")) and (folder / "training_log.json").exists():
                break
        time.sleep(0.01 * round_number)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found, _ = scalars(folder / "board")
        steps = [step for step, _ in found["perf/step_time"]]
        assert steps == list(range(len(steps))) and steps
        whole = (folder / "training_log.json").read_text().rpartition("\n")[0].splitlines()
        assert [json.loads(line)["step"] for line in whole] == list(range(len(whole)))
        subprocess.run(
            [
                MFU,
                "export",
                str(folder / "run"),
                "--training-log",
                str(folder / "all.json"),
                "--tensorboard",
                str(folder / "all"),
            ],
            check=True,
            timeout=120,
        )
        exported = (folder / "all.json").read_text().splitlines()
        assert exported[: len(whole)] == whole and [json.loads(line)["step"] for line in exported] == list(
            range(len(exported))
        )
        rebuilt, _ = scalars(folder / "all")
        assert len(rebuilt["perf/step_time"]) == len(exported)
        for name, events in found.items():
            assert rebuilt[name][:len(events)] == events, name
