"""Runs ./run and ./test on a machine of stand-ins (standin/machine.py): in any order, after any interruption, and after
packages came or went."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from expected import ROOT, expected

sys.path.insert(0, str(Path(__file__).resolve().parent))
from standin.machine import ARCHIVE, WHEELS, Machine  # noqa: E402

STAGES = ("apt", "venv", "pip-torch", "pip-builders", "cmake", "ninja")


def whole(machine, what):
    """The next ./test does everything, and the ./run after it has nothing to do and prints nothing."""
    done = machine.run("test")
    if done.returncode != 0 or "1 passed, 0 failed" not in done.stdout:
        return f"{what}: ./test ended with {done.returncode}\n{done.stdout}{done.stderr}"
    machine.calls()
    again = machine.run("run", "--binary")
    if again.returncode != 0 or again.stderr or machine.calls():
        return f"{what}: ./run after it was not quiet: {again.returncode}\n{again.stderr}"
    return None


def in_order(*commands):
    with Machine() as machine:
        for command in commands:
            done = machine.run(command)
            if done.returncode != 0:
                return f"./{command} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        return whole(machine, " ".join(commands))


def interrupted(command, stage, how):
    with Machine() as machine:
        machine.stop(stage, how)
        done = machine.run(command)
        if (machine.state / "stop").exists():
            return f"the stage {stage} was not reached\n{done.stderr}"
        return whole(machine, f"./{command} ended with {done.returncode} by {how} in {stage}")


def without_network():
    with Machine() as machine:
        machine.network(False)
        done = machine.run("run")
        if done.returncode != 2 or "could not install" not in done.stderr:
            return f"./run without a network and without a compiler ended with {done.returncode}\n{done.stderr}"
        machine.network(True)
        machine.run("run")
        for name in ("libpfm4", "libgtest-dev"):
            (machine.state / "installed" / name).unlink(missing_ok=True)
        machine.network(False)
        done = machine.run("test")
        if done.returncode != 2 or "GoogleTest" not in done.stderr.splitlines()[-1]:
            return f"./test without GoogleTest ended with {done.returncode}\n{done.stderr}"
        machine.network(True)
        return whole(machine, "the network came back")


def packages_come_and_go():
    with Machine() as machine:
        machine.run("test")
        for name in ("libgtest-dev", "libyaml-cpp-dev"):
            (machine.state / "installed" / name).unlink()
        if problem := whole(machine, "packages were removed"):
            return problem
        (machine.state / "installed" / "libfmt-dev").write_text("ii 2.0")
        machine.calls()
        machine.run("run", "--binary")
        if "cmake" not in machine.calls():
            return "another libfmt-dev, and CMake was not asked again"
        site = next((machine.tree / ".venv").glob("lib/python3*/site-packages"))
        for gone in ("nanobind-9.9.dist-info", "pytest-9.9.dist-info", "torch-2.13.0+cpu.dist-info"):
            (site / gone).rename(site / f"~{gone}")
        (site / "nanobind" / "__init__.py").unlink()
        (site / "nanobind").rmdir()
        return whole(machine, "Python packages were removed")


def another_python():
    """A .venv whose Python is gone, as after an upgrade of the system, is made again."""
    with Machine() as machine:
        machine.run("run")
        library = next((machine.tree / ".venv" / "lib").iterdir())
        library.rename(library.parent / "python3.1")
        return whole(machine, "another Python")


def a_broken_build_file():
    with Machine() as machine:
        machine.run("run")
        (machine.tree / "build" / "release" / "build.ninja").write_text("who")
        return whole(machine, "half a build.ninja")


def a_tree_that_moved():
    with Machine() as machine:
        machine.run("run")
        machine.tree = machine.tree.rename(machine.folder / "elsewhere")
        return whole(machine, "the tree moved")


def debian_13():
    """A distribution that has other names for the same packages and no torch for CPUs: Debian's torch is taken, and
    nothing of CUDA."""
    with Machine() as machine:
        machine.archive(
            [name for name in ARCHIVE if name not in ("libdnnl2", "libcurl4")]
            + ["libdnnl3.6", "libdnnl-dev", "libcurl4t64", "python3-torch", "libtorch-dev"]
        )
        machine.wheels(["torch==2.13.0", *(name for name in WHEELS if "torch==" not in name)])
        done = machine.run("run", "--binary")
        calls = machine.calls()
        if "python3-torch libtorch-dev" not in "".join(calls) or any(call.endswith("torch==2.13.0") for call in calls):
            return f"{calls}\n{done.stderr}"
        if "2.6 GB" not in done.stderr or "libdnnl3.6" not in calls[0] or "libcurl4t64" not in calls[0]:
            return f"{calls}\n{done.stderr}"
        (machine.state / "installed" / "libcurl4t64").rename(machine.state / "installed" / "libcurl5")
        (machine.state / "installed" / "libcurl5").write_text("ii 1.0 libcurl4 (= 1.0), other")
        machine.run("run", "--binary")
        machine.calls()
        again = machine.run("run", "--binary")
        return f"the next start was not quiet\n{again.stderr}" if again.stderr or machine.calls() else None


def no_torch_at_all():
    """The Python package is built without it, and the next start does not ask for it again."""
    with Machine() as machine:
        machine.wheels(["torch==2.13.0", *(name for name in WHEELS if "torch==" not in name)])
        done = machine.run("run", "--binary")
        calls = machine.calls()
        if "without PyTorch" not in done.stderr or not any("nanobind" in call for call in calls):
            return f"{calls}\n{done.stderr}"
        again = machine.run("run", "--binary")
        if again.stderr or machine.calls():
            return f"the next start was not quiet\n{again.stderr}"
        machine.run("run", "--binary", MFU_TORCH="pip")
        return (
            None if any(call.endswith("torch==2.13.0") for call in machine.calls()) else "MFU_TORCH=pip did not take it"
        )


def what_is_not_carried():
    """A package that the distribution does not have is asked for once. If the network was the reason, it is asked for
    again."""
    with Machine() as machine:
        machine.archive([name for name in ARCHIVE if name != "libpfm4"])
        machine.run("run")
        machine.calls()
        again = machine.run("run", "--binary")
        return f"{again.stderr}{machine.calls()}" if again.stderr else None


def too_old(tool, version, words):
    with Machine() as machine:
        machine.set(tool, version)
        done = machine.run("run")
        said = done.stderr.strip().splitlines()[-1]
        return (
            None
            if done.returncode == 2 and words in said and version in said
            else f"ended with {done.returncode}: {done.stderr}"
        )


def shell(script, environment):
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{script}"], env=environment, capture_output=True, text=True, timeout=300
    )


def googletest_comes_later():
    """Uses the real CMakeLists. ./run configures it before GoogleTest is installed; ./test configures again and then
    has the unit tests."""
    with Machine() as machine:
        machine.set("real-cmake", "")
        shutil.rmtree(machine.tree / "python")
        for name in ("CMakeLists.txt", "src", "include", "apps", "examples", "bench", "python", "web"):
            (machine.tree / name).symlink_to(ROOT / name)
        for path in (ROOT / "tests").iterdir():
            if not (machine.tree / "tests" / path.name).exists():
                (machine.tree / "tests" / path.name).symlink_to(path)
        script = f"source {machine.tree}/cmake/setup.sh; ninja() {{ :; }}; build release"  # nobody calls the compiler
        environment = {"PATH": f"{machine.folder / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin", "STATE": str(machine.state)}
        first = shell(script, environment)
        listed = machine.tree / "build" / "release" / "tests.txt"
        if (
            first.returncode != 0
            or "missing GoogleTest" not in listed.read_text()
            or "unit unit/mfu_base_test" not in listed.read_text()
        ):
            return (
                "without GoogleTest:"
                f" {first.returncode}\n{first.stderr}\n{listed.read_text() if listed.exists() else ''}"
            )
        if (refused := shell(script + "; require_tests release", environment)).returncode != 2:
            return f"./test would go on without GoogleTest\n{refused.stderr}"
        (machine.state / "installed" / "libgtest-dev").write_text("ii 1.0")
        second = shell(script + "; require_tests release", environment)
        if second.returncode != 0 or "unit/mfu_base_test" not in (listed.parent / "build.ninja").read_text():
            return f"with GoogleTest: {second.returncode}\n{second.stderr}"
        return None if expected("unit", "release", machine.tree) else "no unit test is expected"


def what_is_not_built_fails():
    """A unit test that is listed but missing or empty fails. One that is there but no longer listed is not run."""
    import run as runner  # imported as its own module, because __main__ is running

    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder) / "build" / "release"
        (build / "unit").mkdir(parents=True)
        (build / "tests.txt").write_text("unit unit/gone_test\nunit unit/empty_test\n")
        report = (
            'for word; do case $word in --gtest_output=json:*) echo "{\\"testsuites\\": []}" >"${word#*:}";; esac; done'
        )
        for name in ("empty_test", "old_test"):
            (build / "unit" / name).write_text(f"#!/bin/bash\n{report}\n")
            (build / "unit" / name).chmod(0o755)
        runner.expected = lambda kind, preset: expected(kind, preset, Path(folder))
        found = dict(runner.unit_tests("release", []))
    if set(found) != {"release/gone_test", "release/empty_test"} or None in found.values():
        return f"{found}"
    return None if runner.results_of(lambda: iter(()), [])[0] else "a kind without a test passes"


def tests():
    yield "setup/what is not built fails", what_is_not_built_fails
    yield "setup/run, then test", lambda: in_order("run")
    yield "setup/test, then run", lambda: in_order("test", "run")
    for stage in STAGES:
        for how in ("INT", "KILL", "fail"):
            yield f"setup/run stopped in {stage} by {how}", lambda stage=stage, how=how: interrupted("run", stage, how)
    for how in ("INT", "KILL", "fail"):
        yield f"setup/test stopped in pip-tests by {how}", lambda how=how: interrupted("test", "pip-tests", how)
    yield "setup/the network was gone", without_network
    yield "setup/packages come and go", packages_come_and_go
    yield "setup/another Python", another_python
    yield "setup/half a build.ninja", a_broken_build_file
    yield "setup/the tree moved", a_tree_that_moved
    yield "setup/Debian 13", debian_13
    yield "setup/no torch at all", no_torch_at_all
    yield "setup/what the distribution does not carry", what_is_not_carried
    yield "setup/an old compiler", lambda: too_old("g++", "10.2.1", "g++ 11 or newer")
    yield "setup/an old CMake", lambda: too_old("cmake", "3.18.4", "CMake 3.22 or newer")
    yield "setup/GoogleTest comes later", googletest_comes_later
