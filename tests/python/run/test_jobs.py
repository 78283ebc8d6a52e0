"""Jobs as people launch them: several launchers that make one run, ranks that are missing or started again, counters
that find no room."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from expected import MFU

# 8 × 64 by 64 × 64: 65536 FLOPs forward, and the same for the weight's gradient.
PROGRAM = """
import os, sys, time
import torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(int(os.environ.get("STEPS", "4"))):
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if os.environ.get("HANG_AT") == str(step):
        print("hangs", flush=True)
        time.sleep(300)
    time.sleep(float(os.environ.get("PAUSE", "0.01")))
"""
STEP_FLOP = 2 * 2 * 8 * 64 * 64

needs_hosts = pytest.mark.skipif(subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode != 0,
                                 reason="another host name is not at hand: unshare --uts is refused")


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_JOB_ID", "MFU_RUN_ID", "MFU_ATTEMPT"):
        monkeypatch.delenv(name, raising=False)


def node(tmp_path, host, rank, world, **variables):
    """Runs `mfu run` as if on a machine of that name."""
    (tmp_path / "train.py").write_text(PROGRAM)
    script = f"hostname {host}; exec {MFU} run --dir {tmp_path}/run -- {sys.executable} {tmp_path}/train.py"
    environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world), **variables)
    return subprocess.Popen(
        ["unshare", "--uts", "sh", "-c", script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


@needs_hosts
def test_two_nodes_in_one_folder_are_one_run_with_one_summary(tmp_path):
    second = node(tmp_path, "node-b", 1, 2, PAUSE="0.3")
    first = node(tmp_path, "node-a", 0, 2)
    said = {name: process.communicate(timeout=240)[1] for name, process in (("a", first), ("b", second))}
    report = summary(tmp_path / "run")
    assert (report["ranks"], report["ranks_expected"], report["hosts"], report["launchers"], report["restarts"]) == (
        2,
        2,
        2,
        2,
        0,
    )
    assert report["model_flop"] == 2 * 4 * STEP_FLOP and report["steps"] == 4 and report["devices"] == 2
    assert [(rank["rank"], rank["host"]) for rank in report["by_rank"]] == [(0, "node_a"), (1, "node_b")] and report[
        "slowest_rank"
    ] == 1
    assert "4 steps on 2 ranks of 2 hosts" in said["a"] and "MFU" not in said["b"]  # only the lowest rank prints, once
    parts = sorted(path.name.rsplit("-", 1)[0] for path in (tmp_path / "run").glob("summary-*.json"))
    assert parts == ["summary-node_a", "summary-node_b"]
    for part in (tmp_path / "run").glob("summary-*.json"):
        assert json.loads(part.read_text())["model_flop"] == 4 * STEP_FLOP


@needs_hosts
def test_a_killed_node_that_is_started_again_goes_on_in_the_same_run(tmp_path):
    first = node(tmp_path, "node-a", 0, 2, STEPS="30", PAUSE="0.5")
    second = node(tmp_path, "node-b", 1, 2, HANG_AT="2")
    assert second.stdout.readline() == "hangs\n"
    time.sleep(1)
    os.killpg(second.pid, signal.SIGKILL)
    second.wait()
    again = node(tmp_path, "node-b", 1, 2)
    _, said_again = again.communicate(timeout=240)
    _, said = first.communicate(timeout=240)
    report = summary(tmp_path / "run")
    assert (report["ranks"], report["ranks_expected"], report["attempt"], report["restarts"], report["launchers"]) == (
        2,
        2,
        1,
        1,
        3,
    )
    assert report["model_flop"] == (30 + 3 + 4) * STEP_FLOP  # nothing is lost, nothing counts twice
    assert [(rank["rank"], rank["steps"], rank["restarts"]) for rank in report["by_rank"]] == [(0, 30, 0), (1, 7, 1)]
    assert (
        any("started again 1 times" in note for note in report["notes"])
        and not (tmp_path / "run" / "earlier-1").exists()
    )
    assert "30 steps on 2 ranks of 2 hosts" in said and "MFU" not in said_again


needs_pids = pytest.mark.skipif(
    subprocess.run(["unshare", "--uts", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode,
    reason="pids of its own are not at hand: unshare --pid is refused",
)


def container(tmp_path, rank, **variables):
    """A launcher in a container: it has its own pids, and the same host name as the next one."""
    (tmp_path / "train.py").write_text(PROGRAM)
    script = f"hostname worker; exec {MFU} run --dir {tmp_path}/run -- {sys.executable} {tmp_path}/train.py"
    return subprocess.Popen(
        ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script],
        env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2", **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@needs_pids
def test_two_containers_with_one_host_name_are_one_run(tmp_path):
    second = container(tmp_path, 1, STEPS="8", PAUSE="1")
    while not (tmp_path / "run" / "run.json").exists():
        assert second.poll() is None
        time.sleep(0.05)
    first = container(tmp_path, 0)
    first.communicate(timeout=240)
    second.communicate(timeout=240)
    report = summary(tmp_path / "run")
    assert (report["ranks"], report["launchers"], report["attempt"], report["restarts"]) == (2, 2, 0, 0)
    assert report["model_flop"] == (4 + 8) * STEP_FLOP and not (tmp_path / "run" / "earlier-1").exists()


@needs_pids
def test_a_container_that_is_started_again_is_the_next_attempt(tmp_path):
    other = container(tmp_path, 0, STEPS="40", PAUSE="0.5")
    killed = container(tmp_path, 1, HANG_AT="2")
    assert killed.stdout.readline() == "hangs\n"
    time.sleep(1)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    container(tmp_path, 1).communicate(timeout=240)
    other.communicate(timeout=240)
    report = summary(tmp_path / "run")
    assert (report["ranks"], report["attempt"], report["restarts"], report["launchers"]) == (2, 1, 1, 3)
    assert report["model_flop"] == (40 + 3 + 4) * STEP_FLOP  # its counters were still in the memory of this machine


def test_ranks_that_nobody_saw_are_said(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = subprocess.run(
        [MFU, "run", "--dir", str(tmp_path / "run"), "--", sys.executable, str(tmp_path / "train.py")],
        capture_output=True,
        text=True,
        env=dict(os.environ, RANK="3", WORLD_SIZE="16"),
        timeout=240,
    )
    report = summary(tmp_path / "run")
    assert report["ranks_expected"] == 16 and report["partial"]
    assert any("1 of 16 ranks seen" in note for note in report["notes"]) and "on 1 of 16 ranks" in done.stderr


RESTARTED = PROGRAM + """
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    here = os.path.dirname(__file__)
    open(f"{here}/done-{os.environ['RANK']}", "w").close()
    while not all(os.path.exists(f"{here}/done-{rank}") for rank in (0, 1)):
        time.sleep(0.01)
    os._exit(1)
"""


@pytest.mark.usefixtures("torchrun")
def test_a_worker_that_torchrun_starts_again_keeps_its_rank(tmp_path):
    (tmp_path / "train.py").write_text(RESTARTED)
    subprocess.run(
        [
            MFU,
            "run",
            "--dir",
            str(tmp_path / "run"),
            "--",
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "--max-restarts",
            "1",
            "--master-port",
            "0",
            "--monitor-interval",
            "0.2",
            str(tmp_path / "train.py"),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    report = summary(tmp_path / "run")
    assert (report["ranks"], report["ranks_expected"], report["restarts"], report["attempt"]) == (2, 2, 2, 1)
    assert [(rank["rank"], rank["steps"], rank["restarts"]) for rank in report["by_rank"]] == [(0, 8, 1), (1, 8, 1)]
    assert report["model_flop"] == 2 * 8 * STEP_FLOP and report["exit_status"] == 0


def test_a_limit_on_file_sizes_costs_no_count(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    subprocess.run(
        [
            MFU,
            "run",
            "--dir",
            str(tmp_path / "run"),
            "--",
            "bash",
            "-c",
            f"ulimit -f 64; exec {sys.executable} {tmp_path}/train.py",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
        env=dict(os.environ, RANK="5", WORLD_SIZE="6"),
    )
    report = summary(tmp_path / "run")
    assert report["model_flop"] == 4 * STEP_FLOP and report["steps"] == 4
    assert any(
        note.startswith("rank 5 (process ") and "ulimit -f" in note and "the launcher made room" in note
        for note in report["notes"]
    )


FILLED = (
    "f = open('/dev/shm/filler', 'wb')\ntry:\n    while True: f.write(b'0' * 65536); f.flush()\nexcept OSError: pass\n"
    + PROGRAM
)


@pytest.mark.skipif(
    subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"], capture_output=True
    ).returncode
    != 0,
    reason="a small /dev/shm is not at hand: mounts are refused",
)
def test_a_shared_memory_that_was_filled_after_the_launch_costs_no_count(tmp_path):
    (tmp_path / "train.py").write_text(FILLED)
    script = (
        f"mount -t tmpfs -o size=40m tmpfs /dev/shm; exec {MFU} run --dir {tmp_path}/run -- {sys.executable}"
        f" {tmp_path}/train.py"
    )
    subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
        env=dict(os.environ, RANK="2", WORLD_SIZE="3"),
    )
    report = summary(tmp_path / "run")
    assert report["model_flop"] == 4 * STEP_FLOP
    note = next(note for note in report["notes"] if note.startswith("rank 2 (process "))
    assert "No space left on device" in note and "its counters are in /tmp/" in note
    assert not os.path.exists(note.rsplit(" ", 1)[1])  # nothing is left behind


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not at hand")
def test_launchers_that_mpirun_starts_are_one_run(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = subprocess.run(
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3", MFU, "run", "--", sys.executable, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    runs = list((tmp_path / "mfu-runs").iterdir())
    assert len(runs) == 1, runs
    report = summary(runs[0])
    assert (report["ranks"], report["ranks_expected"], report["launchers"]) == (3, 3, 3) and report[
        "model_flop"
    ] == 3 * 4 * STEP_FLOP
    assert done.stderr.count("coverage ") == 1
