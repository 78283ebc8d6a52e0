"""./test --wheels [--python 3.11]… [--torch 2.9.0]… [--machine aarch64]: tries the wheels of dist/ on a node like a
user's.

For each Python it makes a root of the Debian that has this Python, without a compiler, and in it a fresh environment
for each torch. There it runs `pip install openmfu-*.whl` and then the three trainings of programs.py under `mfu run`,
without network, root rights or home directory. Their FLOPs must equal those computed by hand, to the digit. Another
architecture runs under qemu. This needs root, debootstrap and about 10 GB, and takes minutes for each pair. torch is
fetched from outside the root.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cmake" / "package"))
import roots  # noqa: E402

SUITES = {"3.9": "bullseye", "3.11": "bookworm", "3.13": "trixie"}
TORCHES = ["2.4.0", "2.6.0", "2.9.0", "2.13.0", "2.15.0"]
PROGRAMS = ("mlp", "attention", "convolution")
COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "clang++")
NOBODY = 65534


def say(text):
    print(text, flush=True)


def fetch(python, torch, machine, folder):
    """torch and its dependencies, unpacked as pip does it; None if there is no such file."""
    names = ["manylinux1", "manylinux2010", "manylinux2014", *(f"manylinux_2_{minor}" for minor in range(5, 35))]
    platforms = [word for name in names for word in ("--platform", f"{name}_{machine}")]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir",
         "--only-binary", ":all:", "--python-version", python, "--implementation", "cp", *platforms,
         "--target", folder, f"torch=={torch}", "numpy"],
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or ["pip failed"])[-1]


def wheel_for(python, machine):
    """The wheel of dist/ that pip would choose."""
    major, minor = map(int, python.split("."))
    tags = [f"cp{major}{minor}-cp{major}{minor}", *(["cp312-abi3"] if minor >= 12 else []), "py3-none"]
    for tag in tags:
        found = list((ROOT / "dist").glob(f"openmfu-*-{tag}-manylinux*_{machine}.whl"))
        if found:
            return max(found, key=lambda path: path.stat().st_mtime)
    return None


class Node:
    """A root without a compiler, used by a stranger without network and home."""

    def __init__(self, root):
        self.root = root

    def call(self, *command):
        script = (
            'mount -t proc proc "$ROOT/proc"; mount -t tmpfs -o mode=1777 tmp "$ROOT/tmp"; mkdir -p "$ROOT/dev/shm";'
            ' mount --bind /dev "$ROOT/dev"; mount -t tmpfs -o mode=1777 shm "$ROOT/dev/shm"; cd /;'
            ' exec chroot "$ROOT" /usr/bin/env -i HOME=/nowhere LANG=C.UTF-8 PATH=/node/env/bin:/usr/bin:/bin'
            ' setpriv --reuid "$ID" --regid "$ID" --clear-groups "$@"'
        )
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "bash", "-euc", script, "bash",
             *map(str, command)],
            env=dict(os.environ, ROOT=str(self.root), ID=str(NOBODY)),
            capture_output=True,
            text=True,
            timeout=1800,
        )

    def must(self, *command):
        done = self.call(*command)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr).strip()[-600:]}")
        return done


def emulated(machine):
    """Makes the kernel hand programs of that architecture to qemu in every root, as Debian's binfmt-support does."""
    if machine == platform.machine():
        return
    entry, qemu = Path(f"/proc/sys/fs/binfmt_misc/qemu-{machine}"), shutil.which(f"qemu-{machine}-static")
    if qemu is None:
        raise SystemExit(f"./test --wheels: no qemu-{machine}-static (Debian: apt-get install qemu-user-static)")
    if not entry.parent.joinpath("register").exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", entry.parent], check=True)
    if not entry.exists():
        magic, mask = (
            "\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00",
            "\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff",
        )
        entry.parent.joinpath("register").write_text(f":{entry.name}:M::{magic}:{mask}:{qemu}:F")


def ready(python, machine, folder):
    """A fresh root for that Python, copied from one that is kept."""
    kept = roots.root_of(SUITES[python], machine, folder / "roots", say)
    root = folder / "wheels" / f"{python}-{machine}"
    if not (root / "usr").is_dir():
        root.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", kept, root], check=True)
    bundle = Path("etc/ssl/certs/ca-certificates.crt")  # Debian's pip reads it at every start; a root of another
    if not (root / bundle).exists():                    # architecture is unpacked, and nothing in it was set up
        shutil.copy2(Path("/", bundle), root / bundle)
    there = [name for name in COMPILERS if (root / "usr/bin" / name).exists()]
    if there:
        raise RuntimeError(f"there is a compiler in {root}: {there}")
    return root


def tried(python, torch, machine, folder):
    """[(program, what was seen, what it must be)], or the reason why not."""
    wheel = wheel_for(python, machine)
    if wheel is None:
        return f"dist/ has no wheel for Python {python} on {machine}: ./package --machine {machine} makes it"
    root = ready(python, machine, folder)
    place = root / "node"
    shutil.rmtree(place, ignore_errors=True)
    (place / "torch").mkdir(parents=True)
    problem = fetch(python, torch, machine, place / "torch")
    if problem:
        return f"no such torch: {problem}"
    shutil.copy2(wheel, place)
    shutil.copy2(Path(__file__).with_name("programs.py"), place)
    os.chown(place, NOBODY, NOBODY)
    node = Node(root)
    node.must("python3", "-m", "venv", "/node/env")
    site = next((place / "env" / "lib").glob("python3*/site-packages"))
    (site / "torch_is_there.pth").write_text("/node/torch\n")
    node.must("/node/env/bin/pip", "install", "-q", "--no-index", "--disable-pip-version-check", f"/node/{wheel.name}")
    seen = []
    for program in PROGRAMS:
        done = node.must(
            "mfu", "run", "--dir", f"/node/run-{program}", "--json-file", f"/node/{program}.json", "--", "python",
            "/node/programs.py", program,
        )
        report = json.loads((place / f"{program}.json").read_text())
        seen.append((program, report["model_flop"], int(done.stdout.split("by hand")[1].split()[0]), report["notes"]))
    shutil.rmtree(place, ignore_errors=True)
    return seen


def main():
    parser = argparse.ArgumentParser(prog="./test --wheels", description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", choices=sorted(SUITES))
    parser.add_argument("--torch", action="append", help=f"default: {', '.join(TORCHES)}")
    parser.add_argument("--machine", default=platform.machine(), choices=sorted(roots.TRIPLET))
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "package", help="where roots are kept")
    options = parser.parse_args()
    emulated(options.machine)
    failed = passed = 0
    for python in options.python or SUITES:
        for torch in options.torch or TORCHES:
            try:
                seen = tried(python, torch, options.machine, options.folder.resolve())
            except Exception as error:  # noqa: BLE001: the next pair is tried
                seen = [("it ran", f"{type(error).__name__}: {error}", "a run", [])]
            name = f"Python {python:4}  torch {torch:6}  {options.machine}"
            if isinstance(seen, str):
                say(f"{name}  not tried: {seen}")
                continue
            wrong = [line for line in seen if line[1] != line[2]]
            failed, passed = failed + bool(wrong), passed + (not wrong)
            counts = "  ".join(f"{line[0]} {line[1]}" for line in seen)
            say(f"{name}  FAILED" if wrong else f"{name}  {counts}  exact")
            for program, found, expected, notes in wrong:
                say(f"    {program}: {found}, by hand {expected}" + "".join(f"\n        {note}" for note in notes))
    say(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
