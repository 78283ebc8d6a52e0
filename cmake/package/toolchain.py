"""Which compiler, with which flags: this machine's own, or Debian's cross compiler, against an old Debian's glibc.

The observer uses the C++ library of the process it is loaded into, so it is compiled with the old Debian's headers of it. The command and the
native module stand alone: they have this compiler's own C++ library in them.
"""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from roots import TRIPLET

ROOT = Path(__file__).resolve().parent.parent.parent


def compiler(machine, language="g++"):
    return language if machine == platform.machine() else f"{TRIPLET[machine]}-{language}"


def tool(machine):
    """The compiler, behind ccache where that is."""
    return [*(["ccache"] if shutil.which("ccache") else []), compiler(machine)]


def asked(machine, *question):
    return subprocess.run([compiler(machine), *question], capture_output=True, text=True, check=True).stdout.strip()


def system_flags(machine, root, cxx_headers):
    """The root's C headers and nothing of this machine's, behind those of a C++ library."""
    triplet, own = TRIPLET[machine], Path(asked(machine, "-print-file-name=include"))
    folders = [*cxx_headers, own, root / "usr/include" / triplet, root / "usr/include"]
    return [f"--sysroot={root}", "-nostdinc", *(word for folder in folders for word in ("-isystem", str(folder)))]


def link_flags(machine, root):
    """The root's libraries and start files before this machine's. No path of this machine stays in what is linked."""
    triplet = TRIPLET[machine]
    folders = [root / "usr/lib" / triplet, root / "lib" / triplet]
    return [f"--sysroot={root}", f"-B{root / 'usr/lib' / triplet}/", *(f"-L{folder}" for folder in folders), *(f"-Wl,-rpath-link,{folder}" for folder in folders),
            "-Wl,--build-id=none", "-s"]


def prefix_map():
    return [f"-ffile-prefix-map={ROOT}/=", "-g0"]


def observer_flags(machine, root, abi):
    """What the glue's build.py compiles with, and the root."""
    [folder] = sorted((root / "usr/include/c++").iterdir())
    cxx = [folder, root / "usr/include" / TRIPLET[machine] / "c++" / folder.name]
    return ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-fno-semantic-interposition", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *prefix_map(),
            "-include", str(ROOT / "cmake/package/old_library.h"),
            f"-I{ROOT / 'include'}", f"-I{ROOT / 'src/torch/compat'}", f"-I{ROOT / 'src'}", *system_flags(machine, root, cxx)]


def observer_link_flags(machine, root):
    [folder] = sorted((root / "usr/lib/gcc" / TRIPLET[machine]).iterdir())
    return [f"-L{folder}", *link_flags(machine, root), "-Wl,-z,nodelete"]
