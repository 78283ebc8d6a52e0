"""mfu run over training programs of many kinds (kinds.py): FLOPs are exact, steps end where they should, and mfu
disturbs nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from expected import BATCH, FORWARD, HERE, HIDDEN, IN, MFU, STEP

PROGRAM = str(HERE / "kinds.py")


@pytest.fixture
def run(tmp_path):
    def run(*words, options=(), directory=None, printed="", **environment):
        directory = directory or tmp_path / "run"
        done = subprocess.run(
            [
                MFU,
                "run",
                "--dir",
                str(directory),
                "--json-file",
                str(tmp_path / "summary.json"),
                *options,
                "--",
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=300,
            env=dict(os.environ, OMP_NUM_THREADS="1", **environment),
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == printed
        assert "Traceback" not in done.stderr, done.stderr
        return json.loads((tmp_path / "summary.json").read_text())

    return run


@pytest.mark.usefixtures("torchrun")
@pytest.mark.parametrize("kind, share", [("fsdp", 2), ("fully_shard", 2), ("tensor_parallel", 1)])
def test_two_ranks_add_up_to_one_process(run, kind, share):
    """Sharded data parallel: each rank has its own batch. Tensor parallel: both ranks have the same batch and half of
    each layer."""
    pytest.importorskip("torch.distributed.fsdp")
    report = run(
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(31000 + os.getpid() % 20000),
        PROGRAM,
        kind,
    )
    assert (report["model_flop"], report["hardware_flop"]) == (share * 4 * STEP, share * 4 * STEP)
    assert (report["ranks"], report["steps"]) == (2, 4)
    assert not report["coverage"]["uncounted"]


def test_a_range_of_the_programs_own_ends_steps(run):
    report = run(sys.executable, PROGRAM, "marked", options=["--step-marker", "my step"])
    assert (report["steps"], report["model_flop"], report["samples"]) == (6, 6 * STEP, 6 * BATCH)


def test_without_a_step_it_is_said_how_to_name_one(run):
    report = run(sys.executable, PROGRAM, "marked")
    assert (report["steps"], report["model_flop"]) == (0, 6 * STEP)
    assert any("--step-marker" in note for note in report["notes"])


def test_fused_foreach_and_closure_optimizers_end_steps(run):
    report = run(sys.executable, PROGRAM, "optimizers")
    assert report["steps"] == 8
    operators = report["flop_by_operator"]
    assert operators.pop("aten::dot") > 0  # LBFGS's own
    assert sum(operators.values()) == 8 * STEP


def test_a_compiled_optimizer_ends_steps(run):
    report = run(sys.executable, PROGRAM, "compiled_optimizer")
    assert (report["steps"], report["model_flop"]) == (4, 4 * STEP)


def test_a_pass_that_is_one_node_for_autograd_is_training(run):
    report = run(sys.executable, PROGRAM, "losses_in_one_node", options=["--warmup", "0"])
    phases = {}
    for line in report["phases"]:
        phases[line["phase"]] = phases.get(line["phase"], 0) + line["model_flop"]
    product = 2 * BATCH * IN * HIDDEN  # the Function's forward, and its backward for the weight
    assert phases.pop("train") == 4 * STEP + 4 * 2 * product
    assert sum(phases.values()) == FORWARD + product  # and one pass of each kind without a backward


def test_steps_that_the_scaler_skips_count(run):
    report = run(sys.executable, PROGRAM, "scaled")
    assert (report["steps"], report["model_flop"]) == (5, 5 * STEP)


def test_of_two_optimizers_the_first_ends_the_step(run):
    report = run(sys.executable, PROGRAM, "gan")
    # Generator once and its weight back; judge three times, its weight back each time, and once back to its input.
    wide, narrow = 2 * BATCH * IN * IN, 2 * BATCH * IN
    assert (report["steps"], report["model_flop"]) == (5, 5 * (2 * wide + 3 * 2 * narrow + narrow))


def test_passes_that_only_act_are_in_the_totals_of_the_step_that_learns(run):
    report = run(sys.executable, PROGRAM, "rollouts")
    assert (report["steps"], report["model_flop"]) == (5, 5 * (STEP + 4 * FORWARD))


def test_validation_passes_are_told_apart(run):
    report = run(sys.executable, PROGRAM, "validated", options=["--warmup", "0"])
    assert (report["steps"], report["model_flop"]) == (8, 8 * STEP + 4 * 8 * FORWARD)
    assert 0 < report["validation_fraction"] < 1


@pytest.mark.parametrize("kind", ["deleted", "emptied"])
def test_what_we_write_to_may_be_deleted(run, kind):
    report = run(sys.executable, PROGRAM, kind, printed="done\n")
    assert (report["steps"], report["model_flop"]) == (10, 10 * STEP)


@pytest.fixture
def mounted(tmp_path):
    """Mounts a small file system as it is told."""
    place = tmp_path / "place"

    def mount(options):
        place.mkdir()
        if (
            os.geteuid() != 0
            or subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "none", str(place)], capture_output=True
            ).returncode
            != 0
        ):
            pytest.skip("a file system of one's own is not at hand: mounting one needs root")
        return place

    yield mount
    if os.path.ismount(place):
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_does_not_stop_the_program(run, mounted):
    """A file system of 64 kB holds the run directory and gets full."""
    small = mounted("size=64k")
    subprocess.run(["dd", "if=/dev/zero", f"of={small}/rest", "bs=4096"], capture_output=True)
    report = run(sys.executable, str(HERE / "programs.py"), "plain", directory=small / "run")
    assert (report["steps"], report["model_flop"]) == (20, 20 * STEP)


def test_a_read_only_directory_does_not_stop_the_program(run, mounted, tmp_path):
    report = run(
        sys.executable,
        str(HERE / "programs.py"),
        "plain",
        directory=mounted("ro,size=64k") / "run",
        TMPDIR=str(tmp_path),
    )
    assert (report["steps"], report["model_flop"]) == (20, 20 * STEP)


def test_uv_run(run):
    uv = shutil.which("uv", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if uv is None:
        pytest.skip("uv is not at hand (pip install uv)")
    report = run(
        uv, "run", "--offline", "--no-project", "--python", sys.executable, "python", str(HERE / "programs.py"), "plain"
    )
    assert (report["steps"], report["model_flop"]) == (20, 20 * STEP)


def test_an_environment_of_its_own(run, tmp_path):
    """A copy of the interpreter's environment, as conda and venv make it: another prefix, a console script, python
    -m."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    packages = next((tmp_path / "env" / "lib").glob("python3*")) / "site-packages"
    import torch

    (packages / "host.pth").write_text(str(Path(torch.__file__).parents[1]))
    script = tmp_path / "env" / "bin" / "my-train"
    script.write_text(
        f"#!{tmp_path}/env/bin/python\nimport sys\nsys.path.insert(0, {str(HERE)!r})\nimport"
        " programs\nprograms.plain()\n"
    )
    script.chmod(0o755)
    report = run("my-train", PATH=f"{tmp_path}/env/bin:{os.environ['PATH']}")
    assert (report["steps"], report["model_flop"]) == (20, 20 * STEP)
