"""A machine of stand-ins for ./run and ./test: apt, dpkg, pip, venv, cmake and ninja that take no time, can be
stopped in the middle of what they do, and leave behind what the real ones leave then. The two commands themselves and
cmake/ are the real ones."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS = Path(__file__).resolve().parent / "tools"
# All packages that the lists in cmake/setup.sh name, by their names in Debian 12.
ARCHIVE = """g++ cmake ninja-build pkg-config libfmt-dev libcli11-dev libyaml-cpp-dev libhwloc-dev libboost-dev
    libisal-dev libzstd-dev python3 python3-venv libopenblas0-pthread libdnnl2 libpfm4 libcurl4 git libgtest-dev
    clang-format-19 man-db zsh fish chromium chromium-driver
    fonts-dejavu-core prometheus libopenmpi-dev openmpi-bin python3-dev""".split()
SETUP = (ROOT / "cmake" / "setup.sh").read_text()
# Everything that set-up asks for is known to the stand-in for pip.
LISTS = re.findall(r'^(?:PACKAGE_BUILDERS|TEST_PYTHON_PACKAGES|TEST_TORCH_PACKAGES)="(.*)"', SETUP, re.M)
WHEELS = ["numpy", "torch==2.13.0+cpu", *(re.split("[=<>]", name)[0] for name in " ".join(LISTS).split())]


class Machine:
    """`with Machine() as machine`: at first nothing is installed, the network answers, and PyPI has what we want."""

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="mfu-setup-"))
        self.state, self.tree = self.folder / "state", self.folder / "tree"
        (self.state / "installed").mkdir(parents=True)
        (self.tree / "tests").mkdir(parents=True)
        for name in ("run", "test", "CMakePresets.json"):
            shutil.copy(ROOT / name, self.tree / name)
        shutil.copytree(ROOT / "cmake", self.tree / "cmake")
        (self.tree / "python").mkdir()
        shutil.copy(ROOT / "python" / "openmfu_start.pth", self.tree / "python")
        shutil.copy(TOOLS / "run_tests.py", self.tree / "tests" / "run.py")
        (self.folder / "bin").mkdir()
        for tool in "dpkg dpkg-query apt-get apt-cache sudo cmake ninja g++ c++ pkg-config python3".split():
            script = self.folder / "bin" / tool
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{TOOLS / "tool.py"}" {tool} "$@"\n')
            script.chmod(0o755)
        self.network(True)
        self.archive(ARCHIVE)
        self.wheels(WHEELS)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def network(self, up):
        (self.state / "network").write_text("up" if up else "down")

    def archive(self, names):
        (self.state / "archive").write_text("\n".join(names))

    def wheels(self, names):
        (self.state / "wheels").write_text("\n".join(names))

    def set(self, name, text):
        (self.state / name).write_text(text)

    def stop(self, stage, how):
        """Stops that stage half-way: INT and KILL end the whole command as a terminal does; fail is an error such as a
        full disk."""
        (self.state / "stop").write_text(f"{stage} {how}")

    def calls(self):
        """Tools that worked since the last call, not counting `ninja -n` and questions."""
        log = self.state / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        log.write_text("")
        return lines

    def run(self, command, *arguments, **variables):
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("MFU_", "PIP_", "CXX", "PYTHON"))
        }
        environment |= {
            "PATH": f"{self.folder / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
            "STATE": str(self.state),
            "REAL_PYTHON": sys.executable,
            **variables,
        }
        return subprocess.run(
            [str(self.tree / command), *arguments],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
