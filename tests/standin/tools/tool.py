"""One stand-in for every tool that ./run and ./test call, chosen by its name. $STATE is the machine it works on."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

STATE = Path(os.environ["STATE"])
NAME, ARGUMENTS = sys.argv[1], sys.argv[2:]


def note(what):
    with open(STATE / "calls", "a") as log:
        log.write(what + "\n")


def maybe_stop(stage):
    """Called when half of the stage's work is done."""
    stop = STATE / "stop"
    if not stop.exists() or stop.read_text().split()[0] != stage:
        return
    how = stop.read_text().split()[1]
    stop.unlink()
    if how == "fail":
        sys.exit("No space left on device")
    os.killpg(0, getattr(signal, "SIG" + how))
    signal.pause()


def online():
    return (STATE / "network").read_text() == "up"


def installed():
    return {path.name: path.read_text() for path in (STATE / "installed").iterdir()}


def archive():
    return (STATE / "archive").read_text().split()


def dpkg_query():
    for name, status in installed().items():
        words = status.split()
        print(f"{words[0]} \t{name}\t{words[1]}\t{' '.join(words[2:])}")


def dpkg():
    if ARGUMENTS[:1] == ["--compare-versions"]:
        sys.exit(
            0
            if [int(part) for part in ARGUMENTS[1].split("+")[0].split(".")]
            >= [int(part) for part in ARGUMENTS[3].split(".")]
            else 1
        )
    for name, status in installed().items():
        if not status.startswith("ii"):
            (STATE / "installed" / name).write_text("ii 1.0")


def apt_get():
    if ARGUMENTS[0] == "update":
        sys.exit(0 if online() else "Temporary failure resolving")
    names = [word for word in ARGUMENTS[1:] if not word.startswith("-") and "=" not in word]
    note("apt-get install " + " ".join(names))
    if any(not status.startswith("ii") for status in installed().values()):
        sys.exit("E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.")
    if not online() or any(name not in archive() for name in names):
        sys.exit("E: Unable to locate package")
    for name in names:
        (STATE / "installed" / name).write_text("iU 1.0")
        maybe_stop("apt")
    for name in names:
        (STATE / "installed" / name).write_text("ii 2.6" if name == "python3-torch" else "ii 1.0")
        if name == "python3-torch":
            (STATE / "system-torch").write_text("")


def apt_cache():
    if ARGUMENTS[0] == "pkgnames":
        print("\n".join(name for name in archive() if name.startswith(ARGUMENTS[1])))
    elif ARGUMENTS[0] == "policy":
        print(f"  Candidate: {'2.6.0+dfsg-7' if ARGUMENTS[1] in archive() else '(none)'}")
    else:
        sys.exit(0 if ARGUMENTS[1] in archive() else 100)


def python3():
    if ARGUMENTS[:2] == ["-m", "venv"]:
        note("venv")
        subprocess.run([os.environ["REAL_PYTHON"], "-m", "venv", "--without-pip", ARGUMENTS[2]], check=True)
        python = Path(ARGUMENTS[2]) / "bin" / "python"
        python.unlink()
        python.write_text(
            f'#!/bin/bash\n[ "${{2:-}}" != ensurepip ] || exit 1\nexec -a "$0" "{os.environ["REAL_PYTHON"]}" "$@"\n'
        )
        python.chmod(0o755)
        maybe_stop("venv")
        site = next(Path(ARGUMENTS[2]).glob("lib/python3*/site-packages"))
        (site / "pip").mkdir()
        shutil.copy(Path(__file__).resolve().parent / "pip_main.py", site / "pip" / "__main__.py")
        (site / "pip" / "__init__.py").touch()
        (site / "pip-1.0.dist-info").mkdir()
        for last in ("INSTALLER", "RECORD"):
            (site / "pip-1.0.dist-info" / last).touch()
        sys.exit(0)
    if ARGUMENTS[:2] == ["-c", "import torch"]:
        sys.exit(0 if (STATE / "system-torch").exists() else 1)
    if "base_prefix" in " ".join(ARGUMENTS[:2]):
        print("/usr")
        sys.exit(0)
    os.execv(os.environ["REAL_PYTHON"], [os.environ["REAL_PYTHON"], *ARGUMENTS])


def cmake():
    if ARGUMENTS == ["--version"]:
        print(f"cmake version {(STATE / 'cmake').read_text() if (STATE / 'cmake').exists() else '3.25.1'}")
        return
    note("cmake")
    if (STATE / "real-cmake").exists():  # configures the real tree; GoogleTest is hidden until apt-get has brought it
        hidden = [] if "libgtest-dev" in installed() else ["-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON"]
        hidden.append("-DMFU_PYTHON=OFF")
        os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
        os.execv("/usr/bin/cmake", ["/usr/bin/cmake", *ARGUMENTS, *hidden])
    build = Path("build") / ARGUMENTS[1]
    build.mkdir(parents=True, exist_ok=True)
    (build / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={os.getcwd()}\n")
    maybe_stop("cmake")
    found = "unit unit/one_test\n" if "libgtest-dev" in installed() else "unit unit/one_test\nmissing GoogleTest\n"
    (build / "tests.txt").write_text(found)
    (build / "build.ninja").write_text("whole")


def ninja():
    build = Path(ARGUMENTS[ARGUMENTS.index("-C") + 1])
    if (build / "build.ninja").read_text() != "whole":
        sys.exit("ninja: error: build.ninja:1: expected newline")
    targets = ["mfu"] if "product" in ARGUMENTS else ["mfu", "unit/one_test"]
    if "missing" in (build / "tests.txt").read_text():
        targets = ["mfu"]
    missing = [target for target in targets if not (build / target).exists() or (build / f"{target}.half").exists()]
    if "-n" in ARGUMENTS:
        print("\n".join(f"[1/1] {target}" for target in missing) or "ninja: no work to do.")
        return
    note("ninja")
    for target in missing:
        (build / target).parent.mkdir(exist_ok=True)
        (build / f"{target}.half").touch()
        (build / target).write_text("#!/bin/sh\necho mfu \"$@\"\n")
        maybe_stop("ninja")
        (build / target).chmod(0o755)
        (build / f"{target}.half").unlink()
    (build / "python" / "mfu").mkdir(parents=True, exist_ok=True)


def compiler():
    print((STATE / "g++").read_text() if (STATE / "g++").exists() else "12.2.0")


def sudo():
    os.execvp(ARGUMENTS[0], ARGUMENTS)


{
    "dpkg-query": dpkg_query,
    "dpkg": dpkg,
    "apt-get": apt_get,
    "apt-cache": apt_cache,
    "python3": python3,
    "cmake": cmake,
    "ninja": ninja,
    "g++": compiler,
    "c++": compiler,
    "pkg-config": lambda: None,
    "sudo": sudo,
}[NAME]()
