"""Waits for torch in this process and starts the observer (../_observer) right after torch was imported.

Two files load this one: `sitecustomize.py` in this folder, which `mfu run` puts on PYTHONPATH, and `_openmfu_start.py`,
which the .pth file of the installed package runs if PYTHONPATH is ignored or gone. Nothing here raises, prints or
imports torch. If something fails, the summary of `mfu run` has a note. Needs Python 3.8 or later.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_OBSERVER = os.path.join(os.path.dirname(_HERE), "_observer")


def begin(values):
    """`values`: what `mfu run` set in the environment of its command (MFU_REGION_DIR, MFU_STEP_MARKER). Only the first
    call counts."""
    if getattr(sys, "_mfu_begun", False):
        return
    sys._mfu_begun = True
    if "stop=" in values.get("MFU_EXPLAIN", ""):
        _end_on_request(values)
    imports = _load("_mfu_observer.imports", "imports.py")
    imports.when_imported("torch", lambda torch: _start(imports, values))


def _start(imports, values):
    """Loads the glue under a private name, because the program may have another `mfu`. The glue loads the library.
    """
    try:
        observer = sys.modules.get("_mfu_observer")
        if observer is None:
            sys.modules["_mfu_observer.imports"] = imports  # so that a process has only one import hook
            observer = _load("_mfu_observer", "__init__.py", register=True)
        observer.start(
            values.get("MFU_REGION_DIR", ""),
            values.get("MFU_STEP_MARKER", ""),
            run_folder=values.get("MFU_RUN_DIR", ""),
            explain=values.get("MFU_EXPLAIN", ""),
        )
    except Exception as error:  # the program goes on as it would without us
        _note(values, "torch is not observed in process %d: %s" % (os.getpid(), error))


def _end_on_request(values):
    """For `mfu run --steps`: if the program has no handler of its own, the launcher's SIGTERM ends it like sys.exit(),
    so that finally blocks and atexit handlers run. It acts only once, so that it does not disturb them. A SIGTERM from
    anybody else does what it did before."""
    import signal

    leaving = []

    def leave(number, frame):
        observer = sys.modules.get("_mfu_observer")
        library = getattr(observer, "_library", None)
        ours = library is not None and library.stopping()
        if leaving or ours or os.path.exists(os.path.join(values["MFU_REGION_DIR"], "stopping")):
            if not leaving:
                leaving.append(True)
                raise SystemExit(0)
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, leave)
    except ValueError:  # this is not the main thread, so the signal ends the process as usual
        pass


def _load(name, file, register=False):
    """Does not use importlib.util, because a plain start of Python does not import it."""
    bootstrap, external = sys.modules["_frozen_importlib"], sys.modules["_frozen_importlib_external"]
    folder = [_OBSERVER] if file == "__init__.py" else None
    spec = external.spec_from_file_location(name, os.path.join(_OBSERVER, file), submodule_search_locations=folder)
    module = bootstrap.module_from_spec(spec)
    if register:
        sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if register:
            del sys.modules[name]
        raise
    return module


def _note(values, text):
    """Leaves a note for the summary of `mfu run`. Prints it only if the user asked for the reason."""
    try:
        if os.environ.get("MFU_DEBUG"):
            sys.stderr.write("mfu: " + text + "\n")
        with open(os.path.join(values["MFU_REGION_DIR"], "note-%d.txt" % os.getpid()), "a") as file:
            file.write(text + "\n")
    except Exception:
        pass
