"""Makes roots of older and newer Debians. The wheels are compiled against them, and the headers of their Pythons are
used.

Debian 11 has glibc 2.31, which is older than that of RHEL 9 and Ubuntu 22.04, so what is linked against it runs there
too. A root for this machine's architecture is complete, so that wheels can be tried in it with chroot. A root for
another architecture is only unpacked, to compile against.
"""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
TRIPLET = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
# glibc and the C++ library to compile against, the libraries that are linked in or bundled, Python and its headers.
PACKAGES = {
    "bullseye": (
        "libc6-dev",
        "libstdc++-10-dev",
        "libyaml-cpp-dev",
        "libhwloc-dev",
        "libudev-dev",
        "libisal-dev",
        "libzstd-dev",
        "python3-venv",
        "libpython3-dev",
    ),
    "bookworm": ("python3-venv",),
    "trixie": ("python3-venv", "libpython3-dev"),
}


class RootError(Exception):
    """Says why there is no root, and what to do."""


def mirror():
    """The place from which this machine's apt gets Debian, as a list of one. Empty if apt names none; debootstrap then
    uses its own."""
    if os.environ.get("MFU_DEBIAN_MIRROR"):
        return [os.environ["MFU_DEBIAN_MIRROR"]]
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    lines = [
        line
        for path in sources
        if path.is_file()
        for line in path.read_text().splitlines()
        if not line.lstrip().startswith("#")
    ]
    return re.findall(r"[a-z+]+://\S+/debian/?(?=\s|$)", "\n".join(lines))[:1]


def run(command, log):
    with open(log, "a") as output:
        if (
            subprocess.run(
                [str(part) for part in command],
                stdout=output,
                stderr=output,
                env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"),
            ).returncode
            != 0
        ):
            raise RootError(f"{command[0]} failed: the log is {log}")


def relative_links(root):
    """Makes links to /lib/… relative. Otherwise they would lead out of the root for whoever has not changed into it."""
    for folder in (root / "usr" / "lib", root / "lib", root / "lib64"):
        for path in folder.rglob("*.so*") if folder.is_dir() else ():
            if path.is_symlink() and os.readlink(path).startswith("/"):
                target = os.readlink(path)
                path.unlink()
                path.symlink_to(os.path.relpath(root / target.lstrip("/"), path.parent))


def root_of(suite, machine, folder, say):
    """Returns the folder of the root. The first call makes it."""
    root = folder / f"{suite}-{machine}"
    if (root / ".ready").exists():
        return root
    if os.geteuid() != 0:
        raise RootError(f"a root of Debian's {suite} takes the rights of root: run this as root, or in a container")
    if not shutil.which("debootstrap"):
        raise RootError("debootstrap is missing (Debian: apt-get install debootstrap)")
    say(f"making a root of Debian's {suite} for {machine}")
    shutil.rmtree(root, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{root.name}.log"
    log.unlink(missing_ok=True)
    here, packages = machine == platform.machine(), PACKAGES[suite]
    bootstrap = ["debootstrap", "--variant=minbase", f"--arch={DEBIAN[machine]}"]
    if here:
        run([*bootstrap, suite, root, *mirror()], log)
        run(["chroot", root, "apt-get", "install", "-y", "-q", "--no-install-recommends", *packages], log)
    else:
        run([*bootstrap, "--foreign", f"--include={','.join(packages)}", suite, root, *mirror()], log)
        for package in sorted((root / "var" / "cache" / "apt" / "archives").glob("*.deb")):
            run(["dpkg-deb", "-x", package, root], log)
    shutil.rmtree(root / "var" / "cache" / "apt", ignore_errors=True)
    relative_links(root)
    (root / ".ready").touch()
    return root


if __name__ == "__main__":
    import sys

    print(root_of(sys.argv[1], sys.argv[2], Path(sys.argv[3]), print))
