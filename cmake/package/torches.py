"""Builds the observer for every minor version of torch, with headers and libraries from torch's wheels and the C++
headers of the old Debian.

No part of torch runs. Of each wheel it keeps only the headers, the two libraries that the observer is linked with, and
the files that tell version and ABI.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toolchain import ROOT, observer_flags, observer_link_flags, tool

sys.path.insert(0, str(ROOT / "python" / "mfu" / "_observer"))
import build as observer  # noqa: E402

# The first release of each minor version, so that the observer calls nothing that a later one added.
VERSIONS = [f"2.{minor}.0" for minor in range(4, 16)]
PLATFORMS = ("manylinux1", "manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_31", "manylinux_2_34")
KEPT = (
    "torch/include/",
    "torch/version.py",
    "torch/share/cmake/Torch/TorchConfig.cmake",
    "torch/lib/libc10.so",
    "torch/lib/libtorch_cpu.so",
)


class Unavailable(Exception):
    """Says why there is no such torch."""


def fetch(version, machine, folder, say):
    """The folder of a torch, which the first call downloads and unpacks."""
    kept = folder / machine / version
    if (kept / ".ready").exists():
        return kept / "torch"
    say(f"fetching torch {version} for {machine} (up to 1 GB)")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_{machine}")]
    for python in ("3.11", "3.12", "3.9"):  # the headers are the same for all of them
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--python-version",
                python,
                *platforms,
                f"torch=={version}",
                "-d",
                kept / "wheel",
            ],
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            break
    else:
        shutil.rmtree(kept)
        raise Unavailable(f"torch {version} for {machine}: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}")
    [wheel] = (kept / "wheel").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(kept, [name for name in archive.namelist() if name.startswith(KEPT)])
    shutil.rmtree(kept / "wheel")
    (kept / ".ready").touch()
    return kept / "torch"


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr[-4000:]}")


def plain_objects(machine, root, abi, folder):
    """Compiles the sources that do not use torch, once for all its versions."""
    place = folder / f"plain-abi{abi}"
    place.mkdir(parents=True, exist_ok=True)
    flags = observer_flags(machine, root, abi)
    made = []
    for source in observer.sources(ROOT):
        if source.parent.name != "torch":
            made.append(place / f"{source.parent.name}-{source.stem}.o")
            run([*tool(machine), *flags, "-c", source, "-o", made[-1]])
    return made


def build_one(torch, abi, machine, root, plain, output):
    """Builds libmfu_torch.so for that torch."""
    output.mkdir(parents=True, exist_ok=True)
    flags = [
        *observer_flags(machine, root, abi, torch.parent),
        f"-isystem{torch / 'include'}",
        f"-isystem{torch / 'include/torch/csrc/api/include'}",
    ]
    sources = [source for source in observer.units(ROOT, output, 1) if source.parent.name in ("torch", output.name)]
    objects = [output / f"{source.stem}.o" for source in sources]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda pair: run([*tool(machine), *flags, "-c", pair[0], "-o", pair[1]]), zip(sources, objects)))
    # Libraries of another ABI lack names with a string in them. These are found in the torch that is loaded later.
    link = (
        ["-Wl,-z,defs"]
        if abi == observer.torch_abi(torch)
        else ["-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all"]
    )
    run(
        [
            *tool(machine),
            "-shared",
            "-o",
            output / "libmfu_torch.so",
            *objects,
            *plain,
            *observer_link_flags(machine, root),
            f"-L{torch / 'lib'}",
            *link,
            "-lc10",
            "-ltorch_cpu",
            "-lpthread",
            "-ldl",
        ]
    )
    for scrap in (*objects, *(source for source in sources if source.parent == output)):
        scrap.unlink()
    (output / "libmfu_torch.torch").write_text(f"{observer.torch_version(torch).split('+')[0]} abi{abi}\n")


def sources_digest():
    digest = hashlib.sha256()
    folders = [path for name in ("src/torch", "src/ops", "src/record", "include") for path in (ROOT / name).rglob("*")]
    for path in sorted((*folders, *(ROOT / "src/base").glob("*"), Path(__file__).with_name("toolchain.py"))):
        if path.suffix in (".h", ".cc", ".py"):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def build_all(machine, root, folder, versions, say):
    """(folder of the prebuilt observers, [what could not be made]). There is one per minor version, and up to 2.6 one
    per C++ ABI."""
    made = folder / "observers" / machine
    stamp, digest, missing, plain = made / "sources", sources_digest(), [], {}
    if not stamp.exists() or stamp.read_text() != digest:
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        stamp.write_text(digest)
    for version in versions:
        minor = version.rsplit(".", 1)[0]
        try:
            torch = fetch(version, machine, folder / "torch", say)
        except Unavailable as error:
            missing.append(f"the observer for torch {minor}: {error}")
            continue
        both = int(minor.split(".")[1]) <= 6
        for abi in (0, 1) if both else (observer.torch_abi(torch),):
            output = made / f"torch-{minor}-abi{abi}"
            if (output / "libmfu_torch.torch").exists():
                continue
            say(f"compiling the observer for torch {minor}, C++ ABI {abi}, {machine}")
            if abi not in plain:
                plain[abi] = plain_objects(machine, root, abi, folder / "objects" / machine)
            build_one(torch, abi, machine, root, plain[abi], output)
    shims = made / "libmfu_shims.so"
    if not shims.exists():
        run(
            [
                *tool(machine),
                *observer_flags(machine, root, 1),
                "-shared",
                "-o",
                shims,
                ROOT / "src/torch/shims/shims.cc",
                *observer_link_flags(machine, root),
                "-ldl",
            ]
        )
    return made, missing


if __name__ == "__main__":
    print(*build_all(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:] or VERSIONS, print))
