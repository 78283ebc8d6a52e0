"""The wheel: built from this tree, installed into a fresh environment, used from another folder. Everyday it packs
what ./test has built; MFU_TEST_WHEEL=full compiles everything, as `pip install .` does."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
pytest.importorskip("scikit_build_core", reason="scikit-build-core is not at hand")
pytest.importorskip("nanobind", reason="nanobind is not at hand")


def run(command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=1500, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """(the wheel, the python of a fresh environment that has it installed)."""
    folder = tmp_path_factory.mktemp("wheel")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MFU_"))}
    settings = [  # the pip of Debian 12 does not know -C
        f"--config-settings=build-dir={folder / 'build'}",
        f"--config-settings=cmake.define.MFU_PREBUILT={ROOT / 'build' / 'release'}",
        "--config-settings=build.targets=all",
    ]
    if os.environ.get("MFU_TEST_WHEEL") == "full":
        settings = []
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-build-isolation",
            "--no-deps",
            "--no-index",
            "--disable-pip-version-check",
            *settings,
            "-w",
            folder,
            ROOT,
        ],
        env=clean,
    )
    [wheel] = folder.glob("openmfu-*.whl")
    run([sys.executable, "-m", "venv", folder / "venv"], env=clean)
    python = folder / "venv" / "bin" / "python"
    run([python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel], env=clean, cwd=folder)
    return wheel, python, clean, folder


def test_pip_builds_all_that_the_wheel_installs():
    """The everyday wheel packs what is already built. So ninja is asked whether the target of pyproject.toml would
    build all of it."""
    built = ROOT / "build" / "release"
    [listed] = re.findall(r"^build\.targets = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.M)
    targets = re.findall(r'"([^"]+)"', listed)
    installed = [built / "mfu", *(built / "python" / "mfu").glob("_core.*"), *(built / "torch").glob("*.so")]
    commands = set(re.split(r"\s+|=", run(["ninja", "-C", built, "-t", "commands", *targets])))
    assert len(installed) >= 3 and not {
        path for path in installed if not {str(path.relative_to(built)), str(path)} & commands
    }


def test_what_is_in_it(environment):
    wheel = environment[0]
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "mfu/__init__.py",
        "mfu/py.typed",
        "mfu/_core.pyi",
        "mfu/bin/mfu",
        "mfu/_inject/sitecustomize.py",
        "mfu/_observer/__init__.py",
        "mfu/_observer/source/src/torch/observer.cc",
        "mfu/_observer/source/include/mfu/observer.h",
        "mfu/_observer/source/src/record/recorder.cc",
        "mfu/_observer/source/src/torch/shims/shims.cc",
    ):
        assert name in names
    assert any(name.startswith("mfu/_core.") and name.endswith(".so") for name in names)
    assert not [name for name in names if name.endswith(("_test.cc", ".pyc")) or name.startswith(("tests/", "src/"))]


def test_it_holds_no_path_of_a_library_folder(environment):
    """An RPATH would be a path of the machine that built it."""
    with zipfile.ZipFile(environment[0]) as archive:
        for name in archive.namelist():
            if name.endswith(".so") or name == "mfu/bin/mfu":
                extracted = archive.extract(name, environment[3] / "elf")
                assert not re.search(r"\((RPATH|RUNPATH)\).*\[(?!\$ORIGIN)", run(["readelf", "-d", extracted])), name


def test_cmake_installs_the_same_pieces(environment, tmp_path):
    """A wheel has the command inside the package; everything else is at the same place in both."""
    run(["cmake", "--install", ROOT / "build" / "release", "--prefix", tmp_path])
    package = tmp_path / "share" / "mfu" / "python" / "mfu"
    installed = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    packed = {
        name[len("mfu/") :]
        for name in zipfile.ZipFile(environment[0]).namelist()
        if name.startswith("mfu/") and not name.endswith("/")
    }
    assert packed == installed | {"bin/mfu"}
    assert {"_observer/source/src/torch/observer.cc", "_observer/source/src/torch/shims/shims.cc"} <= installed


def test_it_imports_and_answers_from_another_folder(environment):
    _, python, clean, folder = environment
    ask = (
        "import mfu, importlib.metadata as m; print(m.version('openmfu') == mfu.__version__, mfu.peak('NVIDIA H100 80GB"
        " HBM3')['bf16'].flop_per_s, mfu.__file__.startswith(%r))"
    )
    assert run([python, "-c", ask % str(folder / "venv")], env=clean, cwd="/").split() == [
        "True",
        "989400000000000",
        "True",
    ]


def test_the_command_is_there_in_both_forms(environment):
    _, python, clean, folder = environment
    script = run([python.parent / "mfu", "--version"], env=clean, cwd="/")
    assert script.startswith("mfu ") and run([python, "-m", "mfu", "--version"], env=clean, cwd="/") == script


def test_mfu_run_of_the_wheel_reaches_its_programs(environment, tmp_path):
    """Without torch there is nothing to count, and the program runs as usual."""
    _, python, clean, folder = environment
    program = "import os, sys; print(os.environ['PYTHONPATH'].split(os.pathsep)[0].startswith(%r))" % str(
        folder / "venv"
    )
    assert (
        run([python.parent / "mfu", "run", "--dir", tmp_path / "run", "--", python, "-c", program], env=clean, cwd="/")
        == "True\n"
    )


def test_doctor_says_when_the_other_project_is_installed(environment):
    _, python, clean, folder = environment
    site = next((folder / "venv" / "lib").glob("python3*/site-packages"))
    assert "another project" not in run([python, "-m", "mfu", "doctor"], env=clean, cwd="/")
    theirs = site / "mfu-1.2.3.dist-info"
    theirs.mkdir()
    (theirs / "METADATA").write_text("Metadata-Version: 2.1\nName: mfu\nVersion: 1.2.3\n")
    try:
        assert "mfu' 1.2.3" in run([python, "-m", "mfu", "doctor"], env=clean, cwd="/")
    finally:
        (theirs / "METADATA").unlink()
        theirs.rmdir()
