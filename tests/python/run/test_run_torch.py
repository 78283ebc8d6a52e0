"""mfu run over real PyTorch programs: FLOPs are exact, every process counts once, and the slow rank is named."""

import json
import os
import subprocess
import sys

import pytest
from expected import BATCH, FORWARD, HERE, MFU, STEP

PROGRAM = str(HERE / "programs.py")


@pytest.fixture
def run(tmp_path):
    def run(*words, status=0, **environment):
        done = subprocess.run(
            [MFU, "run", "--dir", str(tmp_path / "run"), "--", *words],
            capture_output=True,
            text=True,
            timeout=300,
            env=dict(os.environ, **environment),
        )
        assert done.returncode == status, done.stderr
        assert done.stdout == ""
        return json.loads((tmp_path / "run" / "summary.json").read_text())

    return run


def test_a_plain_program_is_counted_to_the_last_digit(run):
    report = run(sys.executable, PROGRAM, "plain")
    assert report["model_flop"] == report["hardware_flop"] == 20 * STEP
    assert (report["steps"], report["ranks"], report["recomputed_flop"]) == (20, 1, 0)
    assert report["flop_by_dtype"] == {"fp32": 20 * STEP}
    assert sum(report["flop_by_operator"].values()) == 20 * STEP
    assert 0 < report["mfu"] < 1 and 0 < report["mfu_wall"] < report["mfu"]
    assert report["tokens"] is None and report["samples"] == 20 * BATCH
    assert report["dtype"] == "fp32" and report["peak_flop_per_s"] > 0 and report["exit_status"] == 0


def test_forked_children_are_in_the_totals_once(run):
    report = run(sys.executable, PROGRAM, "forked")
    assert report["model_flop"] == 5 * STEP + 2 * 3 * FORWARD
    assert report["ranks"] == 1


def test_spawned_children_are_in_the_totals_once(run):
    assert run(sys.executable, PROGRAM, "spawned")["model_flop"] == 5 * STEP + 2 * 4 * FORWARD


def test_threads_are_in_the_totals(run):
    assert run(sys.executable, PROGRAM, "threaded")["model_flop"] == 5 * STEP + 4 * 6 * FORWARD


def test_a_killed_program_leaves_its_steps(run, tmp_path):
    report = run(sys.executable, PROGRAM, "killed", status=137)
    assert report["steps"] == 10 and report["model_flop"] == 10 * STEP and report["exit_status"] == 137
    exported = subprocess.run(
        [MFU, "export", str(tmp_path / "run"), "--jsonl", "--peak", "1e12"], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    assert [line["step"] for line in lines] == list(range(10)) and {line["model_flop"] for line in lines} == {STEP}
    for line in lines:
        assert line["perf/mfu"] == pytest.approx(STEP / line["perf/step_time"] / 1e12) and line["source"] == "counted"


def test_an_exit_status_passes(run):
    assert run(sys.executable, PROGRAM, "raising", status=5)["steps"] == 3


@pytest.mark.usefixtures("torchrun")
@pytest.mark.parametrize("slow", [0, 1])
def test_the_slow_rank_of_a_data_parallel_job_is_named(run, slow):
    report = run(
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(29610 + slow + os.getpid() % 1000 * 2),
        PROGRAM,
        "ranks",
        SLOW_RANK=str(slow),
        OMP_NUM_THREADS="1",
    )
    assert report["model_flop"] == 2 * 12 * STEP
    assert report["ranks"] == 2 and report["steps"] == 12
    assert [rank["rank"] for rank in report["by_rank"]] == [0, 1]
    assert report["slowest_rank"] == slow, report["by_rank"]
    assert any("one processor" in note for note in report["notes"])
