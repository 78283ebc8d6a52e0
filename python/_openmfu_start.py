"""Runs at every start of a Python that has the package openmfu, by openmfu_start.pth; does nothing outside `mfu run`.

`mfu run` reaches its programs through PYTHONPATH. This file reaches those that ignore it (`python -E`, `-I`),
replaced it or lost their whole environment (`env -i`, ssh-like launchers): such a process is one of `mfu run` if the
environment still says so, or if the launcher is among its ancestors. A launcher's folder of counters has its pid in
its name, so that where nobody of this user runs `mfu run` the look costs one system call.
"""

import os
import sys


def _ancestors():
    """Pids of this process's ancestors, the parent first."""
    pid = os.getppid()
    for _ in range(64):
        if pid <= 1:
            return
        yield pid
        with open("/proc/%d/stat" % pid, "rb") as file:
            # The name in parentheses may hold anything, also blanks and parentheses: count from its end.
            pid = int(file.read().rpartition(b")")[2].split()[1])


def _folder_of_launcher():
    """The folder of counters of the `mfu run` above this process, or None."""
    for base in ("/dev/shm", "/tmp"):
        mine = "%s/mfu-%d" % (base, os.getuid())
        try:
            owner = os.lstat(mine)
            if owner.st_uid != os.getuid() or owner.st_mode & 0o022:
                continue
            runs = os.listdir(mine)
        except OSError:
            continue
        launchers = {}
        for name in runs:  # DATE-TIME-PID-NUMBER
            parts = name.split("-")
            if len(parts) == 4 and parts[2].isdigit():
                launchers[int(parts[2])] = os.path.join(mine, name)
        if launchers:
            for pid in _ancestors():
                if pid in launchers:
                    return launchers[pid]
    return None


def _values():
    """What `mfu run` set in the environment of its command; None outside of it."""
    if os.environ.get("MFU_REGION_DIR"):
        # else: an older launcher's, which comes by itself
        return dict(os.environ) if os.environ.get("MFU_INJECT_DIR") else None
    folder = _folder_of_launcher()
    if folder is None:
        return None
    with open(os.path.join(folder, "environment"), "rb") as file:
        entries = os.fsdecode(file.read()).split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _begin():
    values = _values()
    if values is None or sys.version_info < (3, 8):
        return
    # The launcher's own part, because it may be of another version than this package.
    for folder in (
        values.get("MFU_INJECT_DIR"),
        os.path.join(os.path.dirname(os.path.abspath(__file__)), "mfu", "_inject"),
    ):
        path = folder and os.path.join(folder, "start.py")
        if path and os.path.isfile(path):
            external = sys.modules["_frozen_importlib_external"]
            spec = external.spec_from_file_location("_mfu_start", path)
            start = sys.modules["_frozen_importlib"].module_from_spec(spec)
            spec.loader.exec_module(start)
            start.begin(values)
            return


try:
    _begin()
except Exception:  # Python's start goes on as without us
    pass
