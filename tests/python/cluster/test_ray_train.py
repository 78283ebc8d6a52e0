"""Runs a real job of Ray Train with two workers, observed from inside its training function and by `mfu run` around it.

Needs ray[train] in MFU_CLUSTER_PYTHON, which ./test --cluster installs, and torch in the Python of the tests."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]
from test_engines import MFU, NODES, PYTHON, ROOT, has  # noqa: E402

TORCH = importlib.util.find_spec("torch")
pytestmark = [
    pytest.mark.skipif(not has("ray.train"), reason="Ray Train is not at hand (./test --cluster installs it)"),
    pytest.mark.skipif(TORCH is None, reason="torch is not at hand"),
]

# Each worker takes 6 steps with a product of 8 × 64 by 64 × 64, forward and for the weight's gradient. Rank 1 is slow,
# and dies once if asked to.
PROGRAM = """
import os, sys, time
import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

def train(config):
    if config["folder"]:
        import mfu
        mfu.observe(config["folder"])
    import torch
    rank = ray.train.get_context().get_world_rank()
    model = prepare_model(torch.nn.Linear(64, 64, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        model(torch.randn(8, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.1 * rank)
        if config["dies"] and step == 3 and rank == 1 and not os.path.exists(config["dies"]):
            open(config["dies"], "w").close()
            os._exit(1)

if __name__ == "__main__":
    folder, dies, storage, address = sys.argv[1:]
    ray.init(address=address or "local", **({} if address else {"num_cpus": 2, "include_dashboard": False}))
    TorchTrainer(
        train, train_loop_config={"folder": folder, "dies": dies}, scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=storage, failure_config=FailureConfig(max_failures=1))).fit()
"""
STEP_FLOP = 2 * 2 * 8 * 64 * 64


def environment():
    packages = [str(ROOT / "build" / "release" / "python"), str(Path(TORCH.origin).parent.parent)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MFU_RUN", "RANK", "WORLD_SIZE"))}
    return {**kept, "PYTHONPATH": os.pathsep.join(packages), "RAY_TRAIN_V2_ENABLED": "1"}


def train(tmp_path, *before, folder="", dies="", address=""):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = subprocess.run(
        [*before, PYTHON, tmp_path / "train.py", folder, dies, tmp_path / "storage", address],
        capture_output=True,
        text=True,
        timeout=500,
        env=environment(),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done


def summary(folder, complete):
    """summary.json once it is complete: the workers end after the program."""
    end = time.monotonic() + 90
    while True:
        found = json.loads((folder / "summary.json").read_text()) if (folder / "summary.json").exists() else None
        if found and complete(found):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.5)


@pytest.fixture(scope="module")
def address():
    """Two nodes of Ray that already run, as in a cluster."""
    cluster = subprocess.Popen(
        [PYTHON, "-c", NODES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    found = cluster.stdout.readline().strip()
    assert found
    yield found
    cluster.stdin.close()
    cluster.wait(timeout=60)


def test_workers_that_observe_themselves_are_one_run(tmp_path, address):
    folder = tmp_path / "run"
    train(tmp_path, folder=str(folder), address=address)
    report = summary(folder, lambda found: found["ranks"] == 2 and found["steps"] == 6)
    assert (report["ranks"], report["ranks_expected"], report["steps"], report["restarts"]) == (2, 2, 6, 0)
    assert report["model_flop"] == 2 * 6 * STEP_FLOP and report["slowest_rank"] == 1
    assert [rank["rank"] for rank in report["by_rank"]] == [0, 1]


def test_mfu_run_reaches_the_workers_of_a_ray_that_the_program_starts(tmp_path):
    folder = tmp_path / "run"
    train(tmp_path, MFU, "run", "--dir", folder, "--")
    report = summary(folder, lambda found: True)
    assert (report["ranks"], report["ranks_expected"], report["steps"]) == (2, 2, 6)
    assert report["model_flop"] == 2 * 6 * STEP_FLOP and report["exit_status"] == 0


def test_workers_that_ray_starts_again_are_the_next_attempt(tmp_path, address):
    folder = tmp_path / "run"
    train(tmp_path, folder=str(folder), dies=str(tmp_path / "died"), address=address)
    report = summary(folder, lambda found: found["restarts"] == 2)
    # Ray ends both workers when one dies. Which step rank 0 is at by then cannot be known.
    assert report["ranks"] == 2 and report["by_rank"][1]["steps"] == 4 + 6
    assert report["model_flop"] >= (4 + 6 + 6) * STEP_FLOP
