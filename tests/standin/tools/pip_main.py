"""Stands in for `python -m pip install …`. It unpacks in pip's order: the INSTALLER and RECORD of a distribution come
last."""

import os
import re
import signal
import sys
import time
from pathlib import Path

STATE = Path(os.environ["STATE"])
SITE = Path(__file__).resolve().parent.parent


def maybe_stop(stage):
    stop = STATE / "stop"
    if not stop.exists() or stop.read_text().split()[0] != stage:
        return
    how = stop.read_text().split()[1]
    stop.unlink()
    if how == "fail":
        sys.exit("OSError: [Errno 28] No space left on device")
    os.killpg(os.getsid(0), getattr(signal, "SIG" + how))
    # ./test runs it in the background, so it outlives a ./test that is killed
    if stage == "pip-tests" and how == "KILL":
        time.sleep(1)
    else:
        signal.pause()


def unpack(requirement):
    name = re.split(r"[=><]", requirement)[0]
    module, version = name.replace("-", "_"), requirement.split("==")[1] if "==" in requirement else "9.9"
    metadata = SITE / f"{module}-{version}.dist-info"
    if (metadata / "METADATA").exists():  # pip takes it as installed
        return
    stage = {"torch": "pip-torch", "nanobind": "pip-builders", "mypy": "pip-tests"}.get(name, name)
    (SITE / module).mkdir(exist_ok=True)
    (SITE / module / "__init__.py").write_text("half")
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").touch()
    maybe_stop(stage)
    (SITE / module / "__init__.py").write_text("")
    if name == "torch":
        (SITE / module / "version.py").write_text(f"__version__ = '{version}'\n")
        (SITE / module / "include" / "ATen" / "core").mkdir(parents=True, exist_ok=True)
        (SITE / module / "include" / "ATen" / "core" / "Tensor.h").touch()
    for last in ("INSTALLER", "RECORD"):
        (metadata / last).touch()


def main():
    wanted = [word for word in sys.argv[2:] if not word.startswith("-")]
    with open(STATE / "calls", "a") as log:
        log.write("pip install " + " ".join(wanted) + "\n")
    if (STATE / "network").read_text() != "up":
        sys.exit(
            "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError'\nERROR: No matching"
            " distribution found"
        )
    wheels = (STATE / "wheels").read_text().split()
    for requirement in wanted:
        name = re.split(r"[=><]", requirement)[0]
        if requirement not in wheels and name not in wheels:
            sys.exit(f"ERROR: No matching distribution found for {requirement}")
    for requirement in wanted:
        unpack(requirement)


main()
