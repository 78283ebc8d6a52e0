"""Compiles the observer for the torch of this Python, once, and keeps it in the user's cache.

`python -m mfu._observer.build` does this by hand. torch's C++ ABI changes with every minor version, so a library is
only valid for one. The name of the folder it is kept in is made of the sources, the full version, the ABI and the
architecture. Nothing here imports torch; its folder is enough.
"""

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "libmfu_torch.so"
SHIMS = "libmfu_shims.so"
# The observer's sources outside of src/torch. Torch is the only library that they need.
PARTS = (
    "src/ops/*.cc",
    "src/torch/*.cc",
    "src/record/recorder.cc",
    "src/record/record_passes.cc",
    "src/record/region_file.cc",
    "src/record/region_sum.cc",
    "src/base/result.cc",
    "src/base/units.cc",
)


class BuildError(Exception):
    """Says why there is no library, and what to do."""


def source_root():
    """In a wheel the sources are next to this file; in a checkout they are at their usual place."""
    for root in (HERE / "source", HERE.parent.parent.parent):
        if (root / "src" / "torch" / "observer.cc").is_file():
            return root
    raise BuildError("the observer's sources are not installed with mfu: reinstall it from the source distribution")


def sources(root):
    found = [path for pattern in PARTS for path in sorted(root.glob(pattern)) if not path.name.endswith("_test.cc")]
    return [path for path in found if path.name not in ("probe.cc", "recorded.cc", "formulas_file.cc")]


# Its functions use gnu::flatten. If it were compiled together with the others, all their code would be inlined into
# each of its functions.
ALONE = "kernels_matmul.cc"


def units(root, folder, groups):
    """What to compile, with the longest first. Reading torch's headers takes longer than compiling our sources. So
    these are put into `groups` units, files in `folder` that include them."""
    found = sources(root)
    ours = [path for path in found if path.parent.name == "torch" and path.name != ALONE]
    made = [path for path in found if path.name == ALONE]
    for number in range(max(1, min(groups, len(ours)))):
        made.append(Path(folder) / f"unit{number}.cc")
        made[-1].write_text("".join(f'#include "torch/{path.name}"\n' for path in ours[number::groups]))
    return made + [path for path in found if path.parent.name != "torch"]


def torch_folder():
    import importlib.util

    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError("this Python has no torch")
    return Path(spec.submodule_search_locations[0])


def torch_version(torch):
    found = re.search(r"__version__\s*=\s*'([^']+)'", (torch / "version.py").read_text())
    if not found:
        raise BuildError(f"{torch}/version.py does not say which version it is")
    return found.group(1)


def torch_abi(torch):
    """_GLIBCXX_USE_CXX11_ABI of the build. In wheels up to 2.6 it is 0."""
    config = torch / "share" / "cmake" / "Torch" / "TorchConfig.cmake"
    found = re.search(r"_GLIBCXX_USE_CXX11_ABI=(\d)", config.read_text()) if config.is_file() else None
    return int(found.group(1)) if found else 1


def cache_folder(torch):
    digest = hashlib.sha256()
    root = source_root()
    headers = [
        path
        for pattern in ("include/mfu/*.h", "src/torch/**/*.h", "src/torch/shims/*.cc", "src/ops/*.h", "src/record/*.h")
        for path in sorted(root.glob(pattern))
    ]
    for path in sources(root) + headers:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    # A home that login nodes and compute nodes share may be used with two architectures.
    name = f"torch-{torch_version(torch)}-abi{torch_abi(torch)}-{platform.machine()}-{digest.hexdigest()[:16]}"
    places = [place / "mfu" / "observer" / name for place in cache_places()]
    found = next((place for place in places if (place / NAME).is_file()), None) or next(
        (place for place in places if can_write(place)), None
    )
    if found is None:
        raise BuildError("there is no folder to keep the observer in: set XDG_CACHE_HOME to one that can be written to")
    return found


def cache_places():
    """The folders that may hold the cache: the one that the user set, one in the home directory, and, if the home is
    missing or read-only, one of the user's own among the temporary files."""
    if os.environ.get("XDG_CACHE_HOME"):
        yield Path(os.environ["XDG_CACHE_HOME"])
    try:
        yield Path.home() / ".cache"
    except (RuntimeError, KeyError):  # there is no HOME, and no user has this number
        pass
    yield Path(tempfile.gettempdir()) / f"mfu-{os.getuid()}"


def can_write(folder):
    try:
        make_folder(folder)
        return os.access(folder, os.W_OK)
    except OSError:
        return False


def trusted(path, user=None):
    """The real path of a library (or of its folder), if nobody else can have put it there or changed it. Otherwise
    raises BuildError.

    Loading a library runs its code. So the library and the folders above it must belong to this user or to root, and
    nobody else may be able to write there. In a folder with the sticky bit (/tmp), others can add entries but cannot
    replace ours.
    """
    user = os.geteuid() if user is None else user
    real = Path(path).resolve(strict=True)
    for place in (real, *real.parents):
        status = os.lstat(place)
        # The folders above the cache are the user's own business: ~/.cache is often open to a group.
        others = stat.S_IWOTH | (stat.S_IWGRP if place in (real, real.parent) else 0)
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        ours = (0, user) if place in (real, real.parent) else (0, user, _unmapped_root())
        if status.st_uid not in ours:
            why = f"belongs to user {status.st_uid}, not to you (user {user}) or root"
        elif status.st_mode & others and not sticky:
            why = f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
        else:
            continue
        raise BuildError(
            f"{real} is not used: {place} {why}, so somebody else could have put code there. Remove it, or set"
            " XDG_CACHE_HOME to a folder of your own"
        )
    return real


def _unmapped_root():
    """In a rootless container that does not map root, `/` and `/home` belong to the kernel's overflow user. Returns
    that user, otherwise None."""
    try:
        mapped = Path("/proc/self/uid_map").read_text().split()[1::3]
        return None if "0" in mapped else int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return None


def make_folder(path):
    """Makes the folder and those above it. Nobody else may write to ours, whatever the umask is."""
    if not path.parent.is_dir():
        make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def compiler():
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    raise BuildError(
        "nothing is prebuilt for this torch and no C++ compiler was found: where there is one (g++ 11 or newer, or"
        " CXX), run `python -m mfu._observer.build` once with this Python"
    )


def flags(torch, root):
    return [
        "-std=c++20",
        "-O2",
        "-DNDEBUG",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-semantic-interposition",
        "-w",
        f"-D_GLIBCXX_USE_CXX11_ABI={torch_abi(torch)}",
        f"-I{root / 'include'}",
        f"-I{root / 'src/torch/compat'}",
        f"-I{root / 'src'}",
        f"-isystem{torch / 'include'}",
        f"-isystem{torch / 'include/torch/csrc/api/include'}",
    ]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line][:3] or done.stderr.splitlines()[-3:]
        raise BuildError("the observer did not compile: " + " | ".join(lines))


def build(torch, output, say=lambda text: None):
    """Compiles into `output`, completely or not at all. Raises BuildError."""
    root, tool = source_root(), compiler()
    # In Debian's python3-torch these are links to headers that may not be there.
    if not (torch / "include" / "ATen" / "core" / "Tensor.h").is_file():
        raise BuildError(
            f"{torch} was installed without its C++ headers (Debian: apt-get install libtorch-dev): the observer cannot"
            " be built for it"
        )
    make_folder(output.parent)
    start, done, cores = time.monotonic(), 0, max(1, len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(prefix="build-", dir=output.parent) as folder:
        parts = units(root, folder, cores)

        def compile_one(index):
            nonlocal done
            made = f"{folder}/{index}.o"
            run([*tool, *flags(torch, root), "-c", str(parts[index]), "-o", made])
            done += 1
            say(
                f"mfu: building the observer for torch {torch_version(torch)}, once: {done} of {len(parts)},"
                f" {time.monotonic() - start:.0f} s"
            )
            return made

        with ThreadPoolExecutor(max_workers=cores) as pool:
            made = list(pool.map(compile_one, range(len(parts))))
        library = f"{folder}/{NAME}"
        run(
            [
                *tool,
                "-shared",
                "-o",
                library,
                *made,
                f"-L{torch / 'lib'}",
                "-Wl,--as-needed",
                "-lc10",
                "-ltorch_cpu",
                "-Wl,-z,defs",
                "-Wl,-z,nodelete",
                "-lpthread",
                "-ldl",
            ]
        )
        shims = f"{folder}/{SHIMS}"
        run([*tool, *flags(torch, root), "-shared", "-o", shims, str(root / "src/torch/shims/shims.cc"), "-ldl"])
        for made in (shims, library):
            os.chmod(made, 0o755)  # with a umask of 002 the group could write
        os.replace(shims, output.parent / SHIMS)
        os.replace(library, output)


def cached(torch=None, say=None):
    """The library for that torch, from the cache or built now. If several processes need it at once, one builds it for
    all. If its build fails, all of them fail."""
    torch = torch or torch_folder()
    folder = cache_folder(torch)
    library, failure = folder / NAME, folder / "failure"
    if not library.is_file():
        make_folder(folder)
        came = time.time()
        with open(trusted(folder) / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError:  # the file system has no locks: each process builds its own, and the last one stays
                pass
            if not library.is_file():
                if failure.is_file() and failure.stat().st_mtime > came:
                    raise BuildError(failure.read_text())
                try:
                    build(torch, library, say or progress())
                except BuildError as error:
                    failure.write_text(str(error))
                    raise
    trusted(folder / SHIMS)
    return trusted(library)


def progress():
    """A function that reports progress on stderr: on a terminal it rewrites a line, otherwise it prints one line at the
    start."""
    if sys.stderr.isatty():
        return lambda text: print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    said = []

    def once(text):
        if not said:
            said.append(text)
            print(
                text.split(":")[0] + ": building the observer for this torch, once (a minute or two)",
                file=sys.stderr,
                flush=True,
            )

    return once


def main():
    parser = argparse.ArgumentParser(description="Compile the observer for the torch of this Python.")
    parser.add_argument("--torch", type=Path, help="torch's folder, instead of this Python's")
    parser.add_argument("--output", type=Path, help="where to put the library, instead of the cache")
    arguments = parser.parse_args()
    try:
        torch = arguments.torch or torch_folder()
        if arguments.output:
            build(torch, arguments.output, progress())
            print(arguments.output)
        else:
            print(cached(torch))
    except (BuildError, OSError) as error:
        print(f"mfu: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
