"""`mfu run` puts this folder first on PYTHONPATH, so Python's start runs this file in every process of the command.

It has start.py wait for torch. A process that never imports torch only pays for these lines. Then the user's own
sitecustomize runs, as if this file did not exist. Nothing here raises or prints. The file must load in any Python, even
in an old one that a program calls.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _begin():
    # Only Python's start uses this entry. Children get the folder from PYTHONPATH again.
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != _HERE]
    if sys.version_info >= (3, 8) and os.environ.get("MFU_REGION_DIR"):
        external, path = sys.modules["_frozen_importlib_external"], os.path.join(_HERE, "start.py")
        spec = external.spec_from_file_location("_mfu_start", path)
        start = sys.modules["_frozen_importlib"].module_from_spec(spec)
        spec.loader.exec_module(start)
        start.begin(os.environ)


def _run_next():
    """Runs the sitecustomize that Python would have found without us, as the real module of that name.

    If it raises, Python reports that as usual."""
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


try:
    _begin()
except Exception:
    pass
_run_next()
