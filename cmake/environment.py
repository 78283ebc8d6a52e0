"""Says what the Python that runs this is and what it has, one fact per line. The text stays the same as long as nothing
changes that the build or the set-up depends on.

    python cmake/environment.py          the facts
    python cmake/environment.py mend     first removes distributions that pip left incomplete when it was stopped

It runs at every ./run, so it imports only what every start of Python imports.
"""

import os
import shutil
import sys
from importlib.util import find_spec


def folder_of(module):
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    return spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else None


def metadata_of(site, name):
    """The folder NAME-VERSION.dist-info in `site`."""
    wanted = name.replace("-", "_").lower() + "-"
    for entry in os.listdir(site):
        if entry.lower().startswith(wanted) and entry.endswith((".dist-info", ".egg-info")):
            return entry
    return None


def half_unpacked(site):
    """Finds distributions that pip did not finish: it writes INSTALLER and RECORD last, and renames what it replaces to
    ~NAME."""
    for entry in os.listdir(site):
        path = os.path.join(site, entry)
        stopped = entry.endswith(".dist-info") and not all(
            os.path.exists(os.path.join(path, last)) for last in ("INSTALLER", "RECORD")
        )
        if stopped or entry.startswith("~"):
            yield path


def torch_facts():
    torch = folder_of("torch")
    try:
        with open(os.path.join(torch or "", "version.py")) as file:
            version = next(line.split("'")[1] for line in file if line.startswith("__version__") and "'" in line)
    except (OSError, StopIteration):
        return "torch: none"
    if torch.startswith(sys.prefix) and not metadata_of(os.path.dirname(torch), "torch"):
        return "torch: none"  # pip does not see it: it is only half unpacked, or half removed
    # In Debian's python3-torch the headers are links to files of libtorch-dev, which may not be installed.
    headers = os.path.exists(os.path.join(torch, "include", "ATen", "core", "Tensor.h"))
    return f"torch: {version} in {torch}, {'with' if headers else 'without'} headers"


def facts(site):
    yield f"python: {sys.version.split()[0]} of {sys.base_prefix}"
    import sysconfig

    yield (
        "python headers:"
        f" {'yes' if os.path.exists(os.path.join(sysconfig.get_paths()['include'], 'Python.h')) else 'none'}"
    )
    yield torch_facts()
    for module, name in (("pip", "pip"), ("nanobind", "nanobind"), ("scikit_build_core", "scikit-build-core")):
        folder = folder_of(module)
        whole = folder and metadata_of(os.path.dirname(folder), name)
        yield f"{name}: {whole or 'none'}"
    broken = sorted(os.path.basename(path) for path in half_unpacked(site))
    if broken:
        yield f"half unpacked: {' '.join(broken)}"


def main():
    site = os.path.join(sys.prefix, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    if not os.path.isdir(site):
        sys.exit(f"{sys.prefix} was made for another Python")
    if sys.argv[1:] == ["mend"]:
        for path in list(half_unpacked(site)):
            shutil.rmtree(path, ignore_errors=True)
    print("\n".join(facts(site)))


main()
