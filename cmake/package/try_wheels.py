"""Tries the wheels of dist/. It installs one into a fresh environment that sees nothing of this tree and has no
compiler on its PATH, and runs three training programs there under `mfu run`. A result is exact if torch's own counter
says the same of that program without mfu.

    python3 cmake/package/try_wheels.py --root build/package/roots/bullseye-x86_64 --torch 2.6.0
    python3 cmake/package/try_wheels.py --torch 2.9.0          # this Python, with the tree hidden

A CUDA build of torch needs NVIDIA's libraries (gigabytes) only so that it can be loaded. Empty libraries with the same
names replace them, and the programs train on the CPU.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from toolchain import ROOT
from torches import PLATFORMS

NEEDED_BY_TORCH = ("typing_extensions", "sympy", "networkx", "jinja2", "filelock", "fsspec", "setuptools", "numpy")
PROGRAMS = ("perceptron", "convolutions", "transformer")
LEFT_OUT = (
    "torch/include/",
    "torch/lib/libtorch_cuda_linalg",
    "torch/bin/protoc",
    "torch/test/",
    "sympy/physics/",
    "networkx/algorithms/tests",
)
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|util)\.so|ld-linux")


def run(command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def fetch(what, version, machine, folder, *more):
    platforms = [word for name in (*PLATFORMS, "manylinux_2_27") for word in ("--platform", f"{name}_{machine}")]
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--only-binary",
            ":all:",
            "--python-version",
            version,
            *platforms,
            *more,
            *what,
            "-d",
            folder,
        ]
    )


def stand_ins(lib):
    """Makes the libraries that torch's libraries ask for and that are not here, with all functions that no library
    defines."""
    missing, wanted, defined, versions = set(), set(), set(), {}
    for library in lib.glob("*.so*"):
        needed = re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-d", library]))
        missing |= {name for name in needed if not (lib / name).exists() and not SYSTEM.match(name)}
        for place, block in re.findall(r"required from (\S+):\n((?:\s+0x.*\n)+)", run(["objdump", "-p", library])):
            versions.setdefault(place, set()).update(line.split()[-1] for line in block.splitlines())
        for line in run(["nm", "-D", library]).splitlines():
            name = line.split()[-1].split("@")[0]
            (wanted if " U " in line else defined).add(name)
    if not missing:
        return
    names = sorted(name for name in wanted - defined if re.match(r"(__)?(cu|nccl|nv|cupti|cufile)", name))
    source = lib / "stand_ins.s"
    text = (
        [".text"]
        + [f".globl {name}\n.type {name}, @function\n{name}:" for name in names if name != "cudaGetDeviceCount"]
        + ["xor %eax, %eax\nret"]
    )
    # cudaErrorNoDevice
    text += [".globl cudaGetDeviceCount\n.type cudaGetDeviceCount, @function\ncudaGetDeviceCount:\nmov $100, %eax\nret"]
    source.write_text("\n".join(text) + '\n.section .note.GNU-stack,"",@progbits\n')
    script = lib / "stand_ins.map"
    for name in missing:  # the loader of Debian 11 insists on the versions that are asked for
        first, *others = sorted(versions.get(name, ())) or [None]
        script.write_text(
            f"{first} {{ global: *; }};\n" + "".join(f"{other} {{}};\n" for other in others)
            if first
            else "{ global: *; };\n"
        )
        run(
            [
                "gcc",
                "-shared",
                "-nostdlib",
                f"-Wl,-soname,{name}",
                f"-Wl,--version-script={script}",
                "-o",
                lib / name,
                source,
            ]
        )
    source.unlink()
    script.unlink()


def prepare_torch(version, python, machine, downloads, folder):
    """torch and what its import needs, as a folder for sys.path."""
    wheels = downloads / f"{version}-{python}"
    if not wheels.is_dir():
        fetch([f"torch=={version}"], python, machine, wheels, "--no-deps")
        fetch(NEEDED_BY_TORCH, python, machine, wheels)
    site = folder / "site"
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site, [name for name in archive.namelist() if not name.startswith(LEFT_OUT)])
    stand_ins(site / "torch" / "lib")
    return site


def inside(root, command, environment):
    """The command, to be run inside that root. Without a root it runs here, with the tree hidden. It gets nothing of
    this process's environment."""
    words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *command]
    quoted = " ".join("'" + str(word).replace("'", "'\\''") + "'" for word in words)
    if root:  # a program finds itself through /proc
        return ["unshare", "-m", "sh", "-c", f"mount -t proc proc {root}/proc && chroot {root} {quoted}"]
    return ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {ROOT.parent} && cd / && {quoted}"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, help="a root of roots.py to change into")
    parser.add_argument("--torch", required=True)
    parser.add_argument("--wheel", help="the wheel's file, instead of the one that pip chooses")
    parser.add_argument(
        "--downloads", type=Path, default=Path("/var/tmp/mfu-torch-wheels"), help="where torch's wheels are kept"
    )
    options = parser.parse_args()
    root, machine = options.root and options.root.resolve(), "x86_64"
    base = Path(tempfile.mkdtemp(prefix="try-", dir=root / "tmp" if root else "/var/tmp"))
    here = Path("/tmp") / base.name if root else base  # the path of that folder as the programs see it
    try:
        say = run(
            inside(
                root,
                ["python3" if root else sys.executable, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                {"PATH": "/usr/bin:/bin"},
            )
        ).strip()
        prepare_torch(options.torch, say, machine, options.downloads, base)
        shutil.copytree(ROOT / "dist", base / "dist")
        shutil.copy2(Path(__file__).with_name("programs.py"), base)
        plain = {"PATH": "/usr/bin:/bin"}
        run(inside(root, ["python3" if root else sys.executable, "-m", "venv", here / "venv"], plain))
        python = here / "venv" / "bin" / "python"
        what = here / "dist" / options.wheel if options.wheel else "openmfu"
        run(
            inside(
                root, [python, "-m", "pip", "install", "-q", "--no-index", "--find-links", here / "dist", what], plain
            )
        )
        tags = (
            next((base / "venv" / "lib").glob("python3*/site-packages/openmfu-*.dist-info/WHEEL"))
            .read_text()
            .split("Tag: ")[1]
            .strip()
        )
        site = next((base / "venv" / "lib").glob("python3*/site-packages"))
        (site / "torch_of_the_trial.pth").write_text(f"{here / 'site'}\n")
        # There is no home, and only the environment is on PATH: no compiler and no tool.
        bare = {"PATH": str(here / "venv" / "bin"), "HOME": "/nonexistent"}
        exact = 0
        for program in PROGRAMS:
            wanted = int(run(inside(root, [python, here / "programs.py", program, "count"], plain)).split()[-1])
            done = subprocess.run(
                [
                    str(word)
                    for word in inside(
                        root,
                        [
                            here / "venv/bin/mfu",
                            "run",
                            "--dir",
                            here / program,
                            "--",
                            "python",
                            here / "programs.py",
                            program,
                        ],
                        bare,
                    )
                ],
                capture_output=True,
                text=True,
            )
            report = (
                json.loads((base / program / "summary.json").read_text())
                if (base / program / "summary.json").exists()
                else {}
            )
            counted = report.get("hardware_flop")
            exact += counted == wanted and done.returncode == 0 and "trained with torch" in done.stdout
            print(
                f"Python {say}, torch {options.torch}, {tags}: {program} {counted} FLOP, torch's counter {wanted},"
                f" {'exact' if counted == wanted else 'NOT EXACT'}",
                flush=True,
            )
            if counted != wanted:
                print(done.stdout[-1500:], done.stderr[-3000:], json.dumps(report)[:1500])
        return 0 if exact == len(PROGRAMS) else 1
    finally:
        if not os.environ.get("MFU_KEEP"):
            shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
