"""`srun mfu run …` on a real Slurm: a launcher a task, one run, one summary, a signal once."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "run")]
import slurm  # noqa: E402
from expected import MFU  # noqa: E402
from test_jobs import PROGRAM, STEP_FLOP  # noqa: E402

pytestmark = pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing() or "-")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm.Slurm(tmp_path_factory.mktemp("slurm")) as running:
        yield running


def summaries(folder):
    return {run.name: json.loads((run / "summary.json").read_text()) for run in (folder / "mfu-runs").iterdir()}


def test_four_launchers_of_one_step_are_one_run_that_is_told_once(cluster, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = cluster.run(
        "srun", "-n4", "-O", "--overlap", MFU, "run", "--json", "--", sys.executable, "train.py", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    ((name, report),) = summaries(tmp_path).items()
    assert name.startswith("train-slurm-") and name.endswith(".0")
    assert (report["ranks"], report["ranks_expected"], report["launchers"], report["steps"]) == (4, 4, 4, 4)
    assert [rank["rank"] for rank in report["by_rank"]] == [0, 1, 2, 3] and report["model_flop"] == 4 * 4 * STEP_FLOP
    assert not report["partial"] and report["devices"] == 1  # the tasks share one processor
    assert done.stderr.count("coverage ") == 1 and [json.loads(line)["ranks"] for line in done.stdout.splitlines()] == [
        4
    ]
    assert len(list((tmp_path / "mfu-runs" / name).glob("summary-*-*.json"))) == 4


def test_the_next_step_of_the_same_job_is_another_run(cluster, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    step = f"srun -n2 -O --overlap {MFU} run -- {sys.executable} train.py"
    (tmp_path / "job.sh").write_text(f"#!/bin/sh\n{step}\n{step}\n")
    done = cluster.run("sbatch", "--wait", "-n2", "--overcommit", "-o", "out.txt", "job.sh", cwd=tmp_path)
    assert done.returncode == 0, (tmp_path / "out.txt").read_text()
    found = summaries(tmp_path)
    assert sorted(name.rsplit(".", 1)[1] for name in found) == ["0", "1"]
    assert [report["ranks"] for report in found.values()] == [2, 2]


SIGNALLED = """
import os, signal, sys, time
n = [0]
signal.signal(signal.SIGUSR1, lambda *a: n.__setitem__(0, n[0] + 1))
open(f"ready-{os.environ['SLURM_PROCID']}", "w").close()
end = time.time() + 60
while time.time() < end and not n[0]: time.sleep(0.01)
time.sleep(0.7)
print("signals:", n[0], flush=True)
"""


def test_a_signal_of_slurms_arrives_once(cluster, tmp_path):
    (tmp_path / "wait.py").write_text(SIGNALLED)
    job = cluster.begin(
        "srun", "-n2", "-O", "--overlap", "-J", "once", MFU, "run", "--", sys.executable, "wait.py", cwd=tmp_path
    )
    end = time.monotonic() + 60
    while not all((tmp_path / f"ready-{task}").exists() for task in (0, 1)):
        assert time.monotonic() < end and job.poll() is None
        time.sleep(0.1)
    cluster.run("scancel", "--signal=USR1", "--name=once")
    out, err = job.communicate(timeout=120)
    assert out.splitlines() == ["signals: 1"] * 2, out + err


@pytest.mark.skipif(
    not os.environ.get("MFU_SLOW_TESTS"),
    reason="two minutes for Slurm to begin a requeued job: not at hand without MFU_SLOW_TESTS=1",
)
def test_a_job_that_slurm_starts_again_is_the_next_attempt(cluster, tmp_path):
    (tmp_path / "train.py").write_text(
        PROGRAM
        + "\nif os.environ.get('SLURM_RESTART_COUNT', '0') == '0':\n    open('first', 'w').close(); time.sleep(300)\n"
    )
    (tmp_path / "job.sh").write_text(f"#!/bin/sh\nsrun -n1 --overlap {MFU} run -- {sys.executable} train.py\n")
    submitted = cluster.run("sbatch", "--parsable", "--requeue", "-o", "out.txt", "job.sh", cwd=tmp_path)
    number = submitted.stdout.strip()
    end = time.monotonic() + 90
    while not (tmp_path / "first").exists():
        assert time.monotonic() < end, (tmp_path / "out.txt").read_text()
        time.sleep(0.2)
    cluster.run("scontrol", "requeue", number)
    cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now")
    run = tmp_path / "mfu-runs" / f"train-slurm-{number}.0"
    end = time.monotonic() + 240
    while not (run / "summary.json").exists() or json.loads((run / "summary.json").read_text())["attempt"] < 1:
        assert time.monotonic() < end, cluster.run("scontrol", "show", "job", number).stdout
        time.sleep(0.5)
    report = json.loads((run / "summary.json").read_text())
    assert (report["attempt"], report["restarts"], report["ranks"]) == (1, 1, 1) and report[
        "model_flop"
    ] == 2 * 4 * STEP_FLOP


def test_a_job_array_makes_parts_that_one_command_merges(cluster, tmp_path):
    """Runs deploy/slurm/explain.sbatch unchanged: three tasks share seven traces."""
    root = Path(__file__).resolve().parents[3]
    subprocess.run(
        [sys.executable, root / "bench" / "make_ranks.py", tmp_path / "traces", "--ranks", "7", "--layers", "4"],
        check=True,
    )
    path = {"PATH": f"{Path(MFU).parent}:{cluster.environment['PATH']}"}
    done = cluster.run(
        "sbatch",
        "--wait",
        "--array=4-6",
        "--cpus-per-task=1",
        "-o",
        "out-%a.txt",
        root / "deploy" / "slurm" / "explain.sbatch",
        "traces",
        "parts",
        cwd=tmp_path,
        variables=path,
    )
    assert done.returncode == 0, [file.read_text() for file in tmp_path.glob("out-*.txt")] + [done.stderr]
    assert sorted(part.name for part in (tmp_path / "parts").iterdir()) == ["4.mfu-part", "5.mfu-part", "6.mfu-part"]
    merged, together = (
        subprocess.run(
            [MFU, "explain", folder, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for folder in ("parts", "traces")
    )
    assert merged == together and len(json.loads(merged)["ranks"]) == 7
