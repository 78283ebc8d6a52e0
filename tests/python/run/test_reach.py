"""Which processes `mfu run` reaches: whoever imports torch first, and however little is left of the environment.

With the package installed (its .pth file is in this environment) a process is reached without PYTHONPATH too; without
the package the launcher finds it from outside and says what helps."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not at hand")
ROOT = Path(__file__).resolve().parents[3]
MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))
# This environment's packages; where the torch is the system's own, that folder too.
SITES = list(dict.fromkeys([Path(sysconfig.get_path("purelib")), Path(torch.__file__).parents[1]]))
# One matmul of 2·8·16·32 FLOP and its weight's gradient, a step; then time for the launcher to look.
STEP = """
import torch, time
x, w = torch.randn(8, 16), torch.randn(16, 32, requires_grad=True)
sgd = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    (x @ w).sum().backward()
    sgd.step()
"""
FLOP = 2 * 2 * (2 * 8 * 16 * 32)
LINGER = "\ntime.sleep(2.5)\n"


def run(tmp_path, *words, env=None, **options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MFU_", "PYTHONPATH"))}
    environment.update(env or {})
    done = subprocess.run(
        [MFU, "run", "--dir", str(tmp_path / "run"), "--", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=tmp_path,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "run" / "summary.json").read_text())


def not_observed(report):
    return [note for note in report["notes"] if note.startswith("torch is not observed")]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python with this environment's torch and without the package."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    [place] = folder.glob("lib/python3*/site-packages")
    for path in (each for site in SITES for each in site.iterdir()):
        if not path.name.startswith(("openmfu", "_distutils", "distutils")) and not (place / path.name).exists():
            (place / path.name).symlink_to(path)
    return folder / "bin" / "python"


@pytest.mark.parametrize(
    "first",
    ["transformers", "accelerate", "diffusers", "lightning", "importlib.util; importlib.util.find_spec('torch')"],
)
def test_a_library_that_looks_for_torch_first(tmp_path, bare, first):
    library = first.split(";")[0].split(".")[0]
    if library != "importlib":
        pytest.importorskip(library, reason=f"{library} is not at hand")
    assert run(tmp_path, bare, "-c", f"import {first}{STEP}")["hardware_flop"] == FLOP


# How a process may lose what `mfu run` gave it -> what the summary then says of it, where the package is not installed.
LOSSES = {
    "{python} -E": "python -E ignores PYTHONPATH",
    "{python} -B -uI": "python -I ignores PYTHONPATH",
    "{python} -X faulthandler -W ignore -E": "python -E ignores PYTHONPATH",
    "env -i {python}": "without the environment of mfu run",
    "env -u PYTHONPATH -u MFU_REGION_DIR {python}": "without the environment of mfu run",
    "env PYTHONPATH=/nowhere {python}": "PYTHONPATH was replaced",
}


def all_at_once(python, program):
    lines = [f"{loss.format(python=python)} -c \"$PROGRAM\" &" for loss in LOSSES]
    return ["sh", "-c", "\n".join([f"PROGRAM='{program}'", *lines, "wait"])]


def test_processes_that_lost_the_environment_are_observed_by_the_package(tmp_path):
    report = run(tmp_path, *all_at_once(sys.executable, STEP))
    assert report["hardware_flop"] == len(LOSSES) * FLOP and not not_observed(report)


def test_processes_that_lost_the_environment_are_named_without_the_package(tmp_path, bare):
    report = run(tmp_path, *all_at_once(bare, STEP + LINGER))
    notes = not_observed(report)
    assert report["hardware_flop"] is None and len(notes) == len(set(LOSSES.values()))
    assert all("install openmfu into that Python" in note for note in notes)
    assert all(any(reason in note for note in notes) for reason in LOSSES.values())


def test_a_step_marker_reaches_a_process_without_environment(tmp_path):
    program = (
        STEP.split("sgd")[0]
        + "\nfor _ in range(3):\n    with torch.profiler.record_function('round'):\n        x @ w\n"
    )
    done = subprocess.run(
        [MFU, "run", "--dir", "run", "--step-marker", "round", "--", "env", "-i", sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0 and json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 3


def test_no_site_at_all(tmp_path, bare):
    [site] = bare.parents[1].glob("lib/python3*/site-packages")
    report = run(tmp_path, bare, "-S", "-c", f"import sys; sys.path.append({str(site)!r}){STEP}{LINGER}")
    [note] = not_observed(report)
    assert "Leave -S out" in note and report["hardware_flop"] is None


def test_a_process_that_begins_late_is_not_called_unobserved(tmp_path):
    """Its observer may be compiled first: torch is mapped for a while, and the process ends soon after it began to
    count."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    report = run(
        tmp_path, sys.executable, "-c", f"import ctypes, time; ctypes.CDLL({str(library)!r}); time.sleep(12){STEP}"
    )
    assert report["hardware_flop"] == FLOP and not not_observed(report)


def test_workers_by_fork_are_no_riddle(tmp_path):
    """They have torch from their parent, which ignores the environment and is observed all the same."""
    program = "import os" + STEP + "if os.fork() == 0:\n    time.sleep(2.5)\n    os._exit(0)\nos.wait()\n"
    report = run(tmp_path, sys.executable, "-I", "-c", program)
    assert report["hardware_flop"] == FLOP and not not_observed(report)


def test_inductors_workers_are_not_missed(tmp_path, bare):
    """Inductor's workers import torch with another PYTHONPATH, but do none of the program's work."""
    worker = tmp_path / "torch" / "_inductor" / "compile_worker" / "__main__.py"
    worker.parent.mkdir(parents=True)
    worker.write_text("import torch, time\ntime.sleep(2.5)\n")
    # the way in which it tries an instruction set (torch/_inductor/cpu_vec_isa.py)
    load = "import torch, time\nfrom ctypes import cdll\ncdll.LoadLibrary('libc.so.6')\ntime.sleep(2.5)\n"
    call = "; ".join(
        f"subprocess.run([sys.executable, *{given!r}], env=dict(os.environ, PYTHONPATH=''))"
        for given in ([str(worker)], ["-c", load])
    )
    report = run(tmp_path, bare, "-c", f"import os, subprocess, sys{STEP}{call}")
    assert report["hardware_flop"] == FLOP and not not_observed(report)
    assert report["coverage"]["complete"] is True


def test_outside_of_mfu_run_the_package_does_nothing(tmp_path):
    """Also while a run of the same user goes on beside it."""
    beside = subprocess.Popen(
        [
            MFU,
            "run",
            "--dir",
            "beside",
            "--",
            sys.executable,
            "-c",
            "import time; print('on', flush=True); time.sleep(30)",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert beside.stdout.readline() == "on\n"
        ask = (
            "import sys, torch; print('_mfu_observer' in sys.modules, hasattr(sys, '_mfu_begun'), '_openmfu_start' in"
            " sys.modules)"
        )
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MFU_")}
        assert (
            subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, env=clean).stdout
            == "False False False\n"
        )
    finally:
        beside.terminate()
        beside.wait()


def test_a_pid_that_a_killed_launcher_had_makes_no_launcher(tmp_path):
    """Its folder of counters is still there, and this process has its pid now."""
    folder = Path(f"/dev/shm/mfu-{os.getuid()}") / f"20200101-000000-{os.getpid()}-123456789"
    region = tmp_path / "regions"
    region.mkdir()
    inject = ROOT / "python" / "mfu" / "_inject"
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir()
    began = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    ask = "import sys, torch; print(hasattr(sys, '_mfu_begun'))"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MFU_")}
    try:
        for start, expected in ((int(began) + 1, "False"), (int(began), "True")):
            entries = {
                "MFU_REGION_DIR": region,
                "MFU_RUN_DIR": tmp_path,
                "MFU_INJECT_DIR": inject,
                "MFU_LAUNCHER_START": start,
            }
            (folder / "environment").write_text("".join(f"{name}={value}\0" for name, value in entries.items()))
            done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, env=clean)
            assert done.stdout.strip() == expected
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler is at hand")
def test_a_program_on_libtorch_is_told_to_preload(tmp_path):
    program = tmp_path / "program"
    (tmp_path / "program.cc").write_text("#include <unistd.h>\nint main() { sleep(3); }\n")
    library = Path(torch.__file__).parent / "lib"
    subprocess.run(
        [
            "g++",
            str(tmp_path / "program.cc"),
            "-o",
            str(program),
            f"-L{library}",
            "-Wl,--no-as-needed",
            "-ltorch_cpu",
            "-lc10",
            f"-Wl,-rpath,{library}",
        ],
        check=True,
    )
    [note] = not_observed(run(tmp_path, program))
    assert "program is not Python" in note and "LD_PRELOAD" in note
