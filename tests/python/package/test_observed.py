"""Whole processes: mfu.observe(), the injection of `mfu run` into real programs, and what observing must never
change."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
mfu = pytest.importorskip("mfu")

INJECT = Path(mfu.__file__).parent / "_inject"
TRAIN = """
import os, sys, torch
torch.set_num_threads(1)
torch.manual_seed(0)
net = torch.nn.Linear(16, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    net(torch.randn(4, 16)).pow(2).mean().backward()
    optimizer.step(); optimizer.zero_grad()
print(net.weight.sum().item(), repr(net.bias.tolist()))
"""
STEP = 2 * 2 * 4 * 16 * 8  # forward, and the weight's gradient


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def run(command, **environment):
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=200,
        env=dict(os.environ, OMP_NUM_THREADS="1", **environment),
    )


def observed(tmp_path, *command, **environment):
    report = tmp_path / "report.json"
    done = run(
        [sys.executable, "-m", "mfu", "run", "--dir", tmp_path / "run", "--json-file", report, "--", *command],
        **environment,
    )
    return done, json.loads(report.read_text())


def test_a_program_is_as_without_us(script, tmp_path):
    plain = run([sys.executable, script])
    done, report = observed(tmp_path, sys.executable, script)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert (report["model_flop"], report["steps"]) == (4 * STEP, 4)


@pytest.mark.parametrize(
    "ending, status",
    [("sys.exit(3)", 3), ("raise RuntimeError('mine')", 1), ("os._exit(9)", 9), ("os.kill(os.getpid(), 15)", 143)],
)
def test_exit_status_and_what_was_counted_survive(script, tmp_path, ending, status):
    script.write_text(TRAIN + ending + "\n")
    done, report = observed(tmp_path, sys.executable, script)
    assert (done.returncode, report["exit_status"], report["model_flop"]) == (status, status, 4 * STEP)


@pytest.mark.usefixtures("torchrun")
def test_torchrun_and_its_ranks(script, tmp_path):
    script.write_text(
        TRAIN.replace("net = ", "torch.distributed.init_process_group('gloo')\nnet = ")
        + "torch.distributed.destroy_process_group()\nimport time; time.sleep(0.5)\n"
    )
    done, report = observed(
        tmp_path, sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script
    )
    assert done.returncode == 0, done.stderr
    assert (report["ranks"], report["model_flop"]) == (2, 8 * STEP)


def test_accelerate_launch(script, tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not at hand")
    done, report = observed(
        tmp_path,
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--cpu",
        "--num_processes",
        "1",
        "--num_machines",
        "1",
        "--mixed_precision",
        "no",
        "--dynamo_backend",
        "no",
        script,
    )
    assert done.returncode == 0 and report["model_flop"] == 4 * STEP, done.stderr


def test_workers_by_spawn_and_fork_are_in_the_totals(tmp_path):
    program = tmp_path / "workers.py"
    program.write_text("""
import multiprocessing, sys

def work():
    import torch
    torch.set_num_threads(1)
    torch.mm(torch.ones(8, 8), torch.ones(8, 8))

if __name__ == "__main__":
    for method in ("spawn", "fork"):
        worker = multiprocessing.get_context(method).Process(target=work)
        worker.start(); worker.join()
        assert worker.exitcode == 0
    work()
""")
    done, report = observed(tmp_path, sys.executable, program)
    assert (done.returncode, report["model_flop"]) == (0, 3 * 1024), done.stderr


def test_a_program_without_torch_is_untouched(tmp_path):
    program = (
        "import numpy, sys; print(numpy.ones(3).sum(), sorted(name for name in sys.modules if 'mfu' in name or name =="
        " 'ctypes.util'))"
    )
    plain = run([sys.executable, "-c", program])
    done, report = observed(tmp_path, sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (0, plain.stdout) and report["notes"]


def test_a_program_that_counts_itself_under_observation(tmp_path):
    product = "torch.mm(torch.ones(8, 8), torch.ones(8, 8))"
    program = (
        "import torch, mfu\ntorch.set_num_threads(1)\nwith mfu.count() as c:\n   "
        f" {product}\n{product}\nprint(c.model_flop)\n"
    )
    done, report = observed(tmp_path, sys.executable, "-c", program)
    assert (done.stdout, report["model_flop"]) == ("1024\n", 2048), done.stderr


def summary_of(run):
    """Waits for summary.json, which the process that carries the counts writes."""
    path = run / "summary.json"
    for _ in range(600):
        if path.exists() and path.read_text().endswith("}\n"):
            return json.loads(path.read_text())
        time.sleep(0.1)
    raise AssertionError(f"no {path}")


def observing_itself(tmp_path, more):
    program = tmp_path / "self.py"
    program.write_text("import mfu\nrun = mfu.observe('here')\n" + TRAIN + more)
    return subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
    )


def test_observe_writes_a_run_directory(tmp_path):
    done = observing_itself(
        tmp_path, "assert mfu.observe() is run\nprint(run.directory, run.model_flop, run.problem == '')\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split()[1:] == [str(4 * STEP), "True"]
    report = summary_of(tmp_path / "here")
    assert (report["model_flop"], report["steps"]) == (4 * STEP, 4)


def test_what_an_observing_process_counted_survives_its_kill(tmp_path):
    done = observing_itself(tmp_path, "import signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert done.returncode == -9
    report = summary_of(tmp_path / "here")
    assert (report["model_flop"], report["steps"]) == (4 * STEP, 4)


def test_who_carries_the_counts_needs_a_place_and_ends_where_nobody_is(tmp_path):
    drain = [sys.executable, "-m", "mfu", "run", "--drain", tmp_path / "regions"]
    done = run(drain)
    assert done.returncode == 2 and "--drain needs --dir" in done.stderr
    (tmp_path / "regions").mkdir()
    done = run([*drain, "--dir", tmp_path / "run"])
    # The process that observes makes the directory.
    assert done.returncode == 2 and "cannot write" in done.stderr and "summary.json" in done.stderr
    (tmp_path / "run").mkdir()
    done = run([*drain, "--dir", tmp_path / "run"])
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    report = summary_of(tmp_path / "run")
    assert (report["ranks"], report["model_flop"]) == (0, None) and report["notes"]


def test_observe_where_the_directory_cannot_be_made_goes_on_elsewhere(tmp_path):
    (tmp_path / "file").write_text("")
    script = (
        f"import mfu\nrun = mfu.observe({str(tmp_path / 'file')!r})\nprint(run.directory is not None, run.problem =="
        " '')\nmfu.mark_step()\n"
    )
    done = run([sys.executable, "-c", script], TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "True True\n") and "RuntimeWarning" in done.stderr, done.stderr


def test_observe_where_torch_cannot_be_observed_goes_on(tmp_path):
    script = "import mfu\nrun = mfu.observe('here')\nprint(run.directory, run.problem != '')\nmfu.mark_step()\n"
    (tmp_path / "broken.so").write_text("no library")
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=dict(os.environ, MFU_OBSERVER_LIBRARY=str(tmp_path / "broken.so")),
    )
    assert (
        (done.returncode, done.stdout) == (0, "None True\n")
        and "RuntimeWarning" in done.stderr
        and not (tmp_path / "here").exists()
    ), done.stderr


def test_mark_step_is_free_where_nothing_is_counted():
    done = run([sys.executable, "-c", "import mfu, sys; mfu.mark_step(); print('torch' in sys.modules)"])
    assert done.stdout == "False\n"
