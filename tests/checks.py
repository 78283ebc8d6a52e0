"""Tests of the whole product that need a program, not only data: the installed package, examples, completion, manual,
README."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import words
from expected import ROOT, NotRun, expected

BUILD = ROOT / "build" / "release"
MFU = BUILD / "mfu"


def run(command, **options):
    """Returns None if the command ends with 0, otherwise what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    return (
        None
        if done.returncode == 0
        else f"{command} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    )


def consumer():
    """A foreign project finds the installed package, builds against it and runs."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "prefix"
        steps = [
            ["cmake", "--install", BUILD, "--prefix", prefix],
            [
                "cmake",
                "-S",
                ROOT / "tests" / "consumer",
                "-B",
                Path(folder) / "build",
                "-G",
                "Ninja",
                f"-DCMAKE_PREFIX_PATH={prefix}",
            ],
            ["cmake", "--build", Path(folder) / "build"],
            [Path(folder) / "build" / "consumer"],
            [prefix / "bin" / "mfu", "--version"],
        ]
        for step in steps:
            if problem := run([str(part) for part in step]):
                return problem
        pages = list(prefix.rglob("mfu-peak.1"))
        if not pages:
            return "no man page was installed"
        more = {path.name for path in prefix.iterdir()} - {"bin", "include", "lib", "lib64", "share"}
        return f"installed beside the usual folders: {sorted(more)}" if more else None


def examples():
    for example in expected("example", "release"):
        yield f"examples/{example.name}", lambda example=example: run([str(example)])


def mpi_example():
    """Two ranks under mpirun: the second one receives the calibration of the first."""
    for example in expected("mpi", "release"):
        yield "examples/mpi", lambda: mpi_run(example)


def mpi_run(example):
    if not example.exists() or not shutil.which("mpirun"):
        return "MPI is not there (Debian: apt-get install libopenmpi-dev openmpi-bin)"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", str(example), folder],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode != 0:
            return f"mpirun ended with {done.returncode}\n{done.stdout}{done.stderr}"
        lines = [json.loads(line) for line in (Path(folder) / "rank1.jsonl").read_text().splitlines()]
    if (
        len(lines) != 201
        or lines[-1].get("source") != "calibrated"
        or abs(lines[-1]["calibration"]["linear"] - 1.1) > 0.01
    ):
        return f"rank 1 ended with {lines[-1]} after {len(lines)} steps"
    return None if lines[0].get("source") == "estimated" else f"rank 1 began with {lines[0]}"


def completed(words):
    """What bash offers for these words while the last one is being typed."""
    script = f"""
      source <({MFU} completion bash)
      COMP_WORDS=({' '.join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}
      compopt() {{ :; }}
      _mfu; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.split()


def bash_completion():
    expectations = [(["mfu", "pe"], ["peak"]), (["mfu", "peak", "--me"], ["--measure"]),
                    (["mfu", "peak", "--color", "al"], ["always"]), (["mfu", "completion", "z"], ["zsh"])]
    for words, expected in expectations:
        if completed(words) != expected:
            return f"{words} gave {completed(words)}, not {expected}"
    return None


def shell_syntax(shell):
    if subprocess.run(["which", shell], capture_output=True).returncode != 0:
        return f"{shell} is not installed (Debian: apt-get install {shell})"
    script = subprocess.run([MFU, "completion", shell], capture_output=True, text=True).stdout
    with tempfile.NamedTemporaryFile("w", suffix=f".{shell}") as file:
        file.write(script)
        file.flush()
        return run([shell, "-n", file.name])


def manual():
    """man reads every page without a warning and shows the examples."""
    for page in sorted((BUILD / "man").glob("*.1")):
        shown = subprocess.run(["man", "--warnings", "-l", "-P", "cat", str(page)], capture_output=True, text=True,
                               env=dict(os.environ, MANWIDTH="80", LC_ALL="C.UTF-8"))
        if shown.returncode != 0 or shown.stderr.strip():
            return f"{page.name}: {shown.stderr}"
        if page.name != "mfu.1" and "EXAMPLES" not in shown.stdout:
            return f"{page.name} has no examples"
    return None


def help_is_whole():
    """Every command's --help has a usage line and examples, and no line is wider than the terminal."""
    listed = subprocess.run([MFU, "--help"], capture_output=True, text=True).stdout
    commands = [name for name in re.findall(r"^  ([a-z]+) +\S", listed, re.M) if name != "mfu"]
    if len(commands) < 5:
        return f"only {commands} in mfu --help"
    for command in commands:
        text = subprocess.run(
            [MFU, command, "--help"], capture_output=True, text=True, env=dict(os.environ, COLUMNS="80")
        ).stdout
        wide = [line for line in text.splitlines() if len(line) > 80]
        if "Usage" not in text or "Examples" not in text or wide:
            return f"mfu {command} --help: {wide or 'no usage or examples'}"
    return None


def readme_commands():
    """Our own commands in the README's sh blocks run exactly as written."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    for line in lines:
        if line.startswith("mfu "):
            environment = dict(os.environ, PATH=f"{BUILD}:{os.environ['PATH']}")
            yield f"readme/{line}", lambda line=line, environment=environment: run(
                ["bash", "-c", line], env=environment
            )


def trace_devices():
    """Every driver name in the README of the real traces resolves, if those traces are at hand."""
    listing = ROOT.parent / "shared" / "traces" / "README.md"
    if not listing.exists():
        yield "traces/devices", NotRun("the real traces are not at hand")
        return
    names = set()
    for row in listing.read_text().splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) > 4 and cells[1].endswith(".json.gz") and "/" not in cells[2]:
            names.add(cells[3])
    for name in sorted(names - {"?", "(blank)", "", "AMD Radeon Graphics"}):
        if name.startswith(("NVIDIA", "Tesla", "AMD", "TPU")):
            yield f"traces/{name}", lambda name=name: one_device(name)


def one_device(name):
    done = subprocess.run([MFU, "peak", name, "--json"], capture_output=True, text=True)
    devices = json.loads(done.stdout).get("devices", [])
    return None if len(devices) == 1 else f"{name}: {[device['device']['name'] for device in devices]}"


def torch_ceiling():
    """PyTorch's matmul is measured too, if our Python has PyTorch."""
    python = os.environ.get("MFU_PYTHON", "")
    if not python or run([python, "-c", "import torch"]):
        return "PyTorch is not there (set-up says why)"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [MFU, "peak", "--measure", "--seconds", "1", "--dtype", "fp32", "--json"],
            capture_output=True,
            text=True,
            env=dict(os.environ, MFU_CACHE_DIR=folder),
        )
        methods = [line["method"] for line in json.loads(done.stdout)["devices"][-1]["measured"]]
        return None if any("PyTorch" in method for method in methods) else f"only {methods}"


def libraries():
    """The program needs no Python, PyTorch, GPU or matrix library to start."""
    linked = subprocess.run(["ldd", MFU], capture_output=True, text=True).stdout
    found = re.findall(r"lib(?:python|torch|c10|cuda|nvidia|rocm|amd|dnnl|openblas|OpenCL)\S*", linked)
    return f"linked to {found}" if found else None


def tests():
    yield "product/installed package", consumer
    yield from examples()
    yield from mpi_example()
    yield "product/bash completion", bash_completion
    yield "product/zsh completion", lambda: shell_syntax("zsh")
    yield "product/fish completion", lambda: shell_syntax("fish")
    yield "product/manual pages", manual
    yield "product/help is whole", help_is_whole
    yield "product/ceiling by PyTorch", torch_ceiling
    yield "product/links little", libraries
    yield from trace_devices()
    yield from readme_commands()
    yield from words.tests()
