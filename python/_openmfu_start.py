"""Runs at every start of a Python that has the package openmfu, through openmfu_start.pth. Outside `mfu run` it does
nothing.

`mfu run` reaches its programs through PYTHONPATH. This file reaches processes that ignore PYTHONPATH (`python -E`,
`-I`), replaced it or lost their whole environment (`env -i`, launchers like ssh). Such a process belongs to `mfu run`
if the environment still says so, or if a launcher is among its ancestors. A launcher has a folder of counters with its
pid in the folder's name. If this user has no `mfu run`, the search costs one system call. A folder stays behind if its
launcher was killed, and the system may give the pid out again, so the time at which the process began must agree too.
"""

import os
import sys


def _ancestors():
    """(pid, when it began in ticks since boot) of each ancestor of this process, the parent first."""
    pid = os.getppid()
    for _ in range(64):
        if pid < 1:
            return
        with open("/proc/%d/stat" % pid, "rb") as file:
            # The name in parentheses may hold anything, even blanks and parentheses, so we count from its end.
            fields = file.read().rpartition(b")")[2].split()
        yield pid, os.fsdecode(fields[19])
        pid = int(fields[1])


def _entries(folder):
    with open(os.path.join(folder, "environment"), "rb") as file:
        entries = os.fsdecode(file.read()).split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _values_of_launcher():
    """What the `mfu run` above this process set. None if there is none."""
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
        for name in runs:  # the form is DATE-TIME-PID-NUMBER
            parts = name.split("-")
            if len(parts) == 4 and parts[2].isdigit():
                launchers.setdefault(int(parts[2]), []).append(os.path.join(mine, name))
        for pid, began in _ancestors() if launchers else ():
            for folder in launchers.get(pid, ()):
                try:
                    values = _entries(folder)
                except OSError:
                    continue
                if values.get("MFU_LAUNCHER_START") == began:
                    return values
    return None


def _values():
    """What `mfu run` set in the environment of its command. None outside of it."""
    if os.environ.get("MFU_REGION_DIR"):
        # otherwise an older launcher, which reaches the process by itself
        return dict(os.environ) if os.environ.get("MFU_INJECT_DIR") else None
    return _values_of_launcher()


def _begin():
    values = _values()
    if values is None or sys.version_info < (3, 8):
        return
    # Uses the launcher's own files, because the launcher may be of another version than this package.
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
except Exception:  # Python starts as it would without us
    pass
