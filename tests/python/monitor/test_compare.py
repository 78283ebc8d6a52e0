"""mfu compare takes the output folders of two monitors."""

import json
import os
import subprocess
from pathlib import Path

import mfu

MFU = os.environ.get("MFU_BINARY", str(Path(__file__).resolve().parents[3] / "build" / "release" / "mfu"))


def monitored(folder, seconds, model):
    """Fifty steps that say how long they took."""
    monitor = mfu.Monitor(
        output_dir=folder, run_dir=folder / "mfu-run", model=model, dtype="bf16", peak=1e12, wandb=False
    )
    for step in range(50):
        monitor.log_step(step, batch=2, seq=500, step_seconds=seconds * (1.001 if step % 2 else 1))
    monitor.close()
    return folder


def compare(before, after):
    done = subprocess.run([MFU, "compare", before, after, "--json"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def test_the_slower_of_two_monitored_runs_is_worse(tmp_path, small):
    quick, slow = monitored(tmp_path / "quick", 0.01, small), monitored(tmp_path / "slow", 0.015, small)
    status, report = compare(quick, slow)
    assert (status, report["verdict"], report["unit"]) == (1, "worse", "token")
    assert abs(report["slower_fraction"] - 0.5) < 0.01
    assert report["gain_low_fraction"] <= report["gain_fraction"] <= report["gain_high_fraction"] < 0
    assert abs(report["mfu_before"] / report["mfu_after"] - 1.5) < 0.01
    assert compare(slow, quick)[0] == 0
    assert compare(quick, quick)[1]["verdict"] == "same"
