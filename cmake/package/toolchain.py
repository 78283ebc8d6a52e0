"""Chooses the compiler (this machine's, or Debian's cross compiler) and its flags, for the glibc of an old Debian.

The observer uses the C++ library of the process into which it is loaded, so it is compiled with the old Debian's
headers of that library. The command and the native module include this compiler's own C++ library.
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
    """The command of the compiler, with ccache if it is installed."""
    return [*(["ccache"] if shutil.which("ccache") else []), compiler(machine)]


def asked(machine, *question):
    return subprocess.run([compiler(machine), *question], capture_output=True, text=True, check=True).stdout.strip()


def system_flags(machine, root, cxx_headers):
    """Flags for the headers of a C++ library and the root's C headers, without any header of this machine."""
    triplet, own = TRIPLET[machine], Path(asked(machine, "-print-file-name=include"))
    folders = [*cxx_headers, own, root / "usr/include" / triplet, root / "usr/include"]
    return [f"--sysroot={root}", "-nostdinc", *(word for folder in folders for word in ("-isystem", str(folder)))]


def link_flags(machine, root):
    """Flags to link with the root's libraries and start files. No path of this machine stays in the result."""
    triplet = TRIPLET[machine]
    folders = [root / "usr/lib" / triplet, root / "lib" / triplet]
    return [
        f"--sysroot={root}",
        f"-B{root / 'usr/lib' / triplet}/",
        *(f"-L{folder}" for folder in folders),
        *(f"-Wl,-rpath-link,{folder}" for folder in folders),
        "-Wl,--build-id=none",
        "-s",
    ]


def prefix_map(*folders):
    """Flags that keep this machine's paths out of file names, which assertions in headers use."""
    return [*(f"-ffile-prefix-map={folder}/=" for folder in (ROOT, *folders)), "-g0"]


def observer_flags(machine, root, abi, *torch):
    """The flags of the observer's build.py, with the root. `torch`: the folder of the torch that it is for."""
    [folder] = sorted((root / "usr/include/c++").iterdir())
    cxx = [folder, root / "usr/include" / TRIPLET[machine] / "c++" / folder.name]
    return [
        "-std=c++20",
        "-O2",
        "-DNDEBUG",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-semantic-interposition",
        "-w",
        f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        *prefix_map(root, *torch),
        "-include",
        str(ROOT / "cmake/package/old_library.h"),
        f"-I{ROOT / 'include'}",
        f"-I{ROOT / 'src/torch/compat'}",
        f"-I{ROOT / 'src'}",
        *system_flags(machine, root, cxx),
    ]


def observer_link_flags(machine, root):
    [folder] = sorted((root / "usr/lib/gcc" / TRIPLET[machine]).iterdir())
    return [f"-L{folder}", *link_flags(machine, root), "-Wl,-z,nodelete"]


def own_cxx_headers(machine):
    """The folders of this compiler's own C++ library."""
    shown = subprocess.run(
        [compiler(machine), "-E", "-x", "c++", "-v", "/dev/null"], capture_output=True, text=True, check=True
    ).stderr
    listed = shown.split("search starts here:")[-1].split("End of search list")[0]
    return [Path(line.strip()).resolve() for line in listed.splitlines() if "/c++/" in line]


def alone_flags(machine, root):
    """Flags for the command and the native module, which include their C++ library."""
    return [*system_flags(machine, root, own_cxx_headers(machine)), *prefix_map(root)]


def alone_link_flags(machine, root, stand_ins):
    return [*link_flags(machine, root), "-static-libstdc++", str(stand_ins)]


def write_cmake_toolchain(path, machine, root, stand_ins):
    triplet, link = TRIPLET[machine], " ".join(alone_link_flags(machine, root, stand_ins))
    lines = [
        f"set(CMAKE_C_COMPILER {compiler(machine, 'gcc')})",
        f"set(CMAKE_CXX_COMPILER {compiler(machine)})",
        f"set(CMAKE_C_FLAGS_INIT \"{' '.join([*system_flags(machine, root, []), *prefix_map(root)])}\")",
        f"set(CMAKE_CXX_FLAGS_INIT \"{' '.join(alone_flags(machine, root))}\")",
        # The command looks for its libraries in the wheel, in the folder next to its own.
        f"set(CMAKE_EXE_LINKER_FLAGS_INIT \"{link} -Wl,-rpath,'$ORIGIN/../lib'\")",
        f"set(CMAKE_SHARED_LINKER_FLAGS_INIT \"{link}\")",
        f"set(MFU_PACKAGE_SYSROOT {root})",
        f"set(MFU_PACKAGE_TRIPLET {triplet})",
        "set(CMAKE_SKIP_RPATH ON)",
    ]
    if machine != platform.machine():
        lines += [
            "set(CMAKE_SYSTEM_NAME Linux)",
            f"set(CMAKE_SYSTEM_PROCESSOR {machine})",
            f"set(CMAKE_CROSSCOMPILING_EMULATOR qemu-{machine}-static -L {root})",
        ]
    if shutil.which("ccache"):
        lines += [f"set(CMAKE_{language}_COMPILER_LAUNCHER ccache)" for language in ("C", "CXX")]
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        for cache in path.parent.glob("*/CMakeCache.txt"):  # CMake reads flags only at its first call
            cache.unlink()
