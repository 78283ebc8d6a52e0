"""`mfu run` puts this folder first on PYTHONPATH: Python's start runs this file in every process of the command.

It waits for torch and starts the observer (../_observer) right after torch was imported; a process that never imports torch pays for
these lines only. A sitecustomize of the user's own is run next, as if this one were not there. Nothing here raises, prints or imports
torch; what fails is noted beside the counts. It must load in any Python, also an old one that a program calls.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _Loader(object):
    """torch's own loader, which starts the observer when torch's code has run."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        try:
            module.__spec__.loader = module.__loader__ = self._loader
        except AttributeError:
            pass
        self._loader.exec_module(module)
        start()


class _Finder(object):
    """Finds nothing itself: waits for torch's name, asks the others, and leaves."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                # A folder named torch without __init__.py is no torch.
                if spec.origin and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        sys.meta_path.insert(0, self)  # no torch here, or not yet
        return None


def start():
    """Loads the glue, which loads the library, under a name of its own: the program may have another `mfu`."""
    try:
        observer = sys.modules.get("_mfu_observer")
        if observer is None:
            from importlib.util import module_from_spec, spec_from_file_location

            folder = os.path.join(os.path.dirname(_HERE), "_observer")
            spec = spec_from_file_location("_mfu_observer", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
            observer = module_from_spec(spec)
            sys.modules["_mfu_observer"] = observer
            spec.loader.exec_module(observer)
        observer.start()
    except Exception as error:  # the program goes on as without us
        note("torch is not observed in process %d: %s" % (os.getpid(), error))


def note(text):
    """For the summary of `mfu run`; on stderr only where somebody looks for the reason."""
    try:
        if os.environ.get("MFU_DEBUG"):
            sys.stderr.write("mfu: " + text + "\n")
        with open(os.path.join(os.environ["MFU_REGION_DIR"], "note-%d.txt" % os.getpid()), "a") as file:
            file.write(text + "\n")
    except Exception:
        pass


def _run_next():
    """The sitecustomize that Python would have found without us, as the real module of that name. What it raises, Python reports as ever."""
    others = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
    if sys.version_info[0] < 3:
        import imp

        try:
            found = imp.find_module("sitecustomize", others)
        except ImportError:
            return
        imp.load_module("sitecustomize", *found)
        return
    spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = sys.modules["_frozen_importlib"].module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _begin():
    # Nobody but Python's start looks here; children get the folder from PYTHONPATH again.
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != _HERE]
    if sys.version_info >= (3, 8) and os.environ.get("MFU_REGION_DIR") and "torch" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


try:
    _begin()
except Exception:
    pass
_run_next()
