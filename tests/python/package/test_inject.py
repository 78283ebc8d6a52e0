"""What `mfu run` puts into a program's start: it waits for torch, runs the user's own sitecustomize, and is otherwise
not there.

A stand-in torch and observer show when the observer starts; the real ones are in test_observed.py."""

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[3] / "python"
OLD = [path for name in ("2.7.18", "3.6.15", "3.7.16", "3.8.18", "3.9.18", "3.10.13", "3.12.1", "3.13.0")
       for path in glob.glob(os.path.expanduser(f"~/.pyenv/versions/{name}/bin/python"))]


@pytest.fixture
def place(tmp_path):
    shutil.copytree(PYTHON / "mfu" / "_inject", tmp_path / "mfu" / "_inject")
    observer = tmp_path / "mfu" / "_observer"
    observer.mkdir()
    shutil.copy(PYTHON / "mfu" / "_observer" / "imports.py", observer)
    (observer / "__init__.py").write_text("""
import os
from . import imports, part

def start(region_folder=None, step_marker=None, run_folder=None, explain=None):
    open(os.environ["TOLD"], "a").write("started %d\\n" % os.getpid())
""")
    (observer / "part.py").write_text("")
    (tmp_path / "site" / "torch").mkdir(parents=True)
    (tmp_path / "site" / "torch" / "__init__.py").write_text(
        "import os\nopen(os.environ['TOLD'], 'a').write('torch\\n')\n__version__ = '2'\n"
    )
    (tmp_path / "region").mkdir()
    return tmp_path


def run(place, *command, path=(), region=True, python=sys.executable, **options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MFU_", "PYTHON"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(place / "mfu" / "_inject"), *map(str, path), str(place / "site")])
    environment["TOLD"] = str(place / "told")
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if region:
        environment["MFU_REGION_DIR"] = str(place / "region")
    environment.update(options.pop("env", {}))
    return subprocess.run([python, *command], capture_output=True, text=True, env=environment, timeout=120, **options)


def told(place):
    file = place / "told"
    return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []


def test_the_observer_starts_right_after_torch_was_imported(place):
    done = run(
        place,
        "-c",
        "import sys; assert '_mfu_observer' not in sys.modules; import torch; print(torch.__version__); assert"
        " '_mfu_observer' in sys.modules",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
    assert told(place) == ["torch", "started"]


def test_torch_looks_as_if_nobody_had_touched_it(place):
    ask = (
        "import torch, sys; print(type(torch.__loader__).__name__, type(torch.__spec__.loader).__name__,"
        " len(sys.meta_path), sys.path)"
    )
    with_us, without = run(place, "-c", ask), run(place, "-c", ask, env={"PYTHONPATH": str(place / "site")})
    assert with_us.stdout == without.stdout


def test_without_torch_nothing_happens(place):
    done = run(place, "-c", "import json, sys; print(sorted(name for name in sys.modules if 'mfu' in name))")
    assert (done.stdout, done.stderr, told(place)) == ("[]\n", "", [])


def test_a_program_that_tries_torch_and_has_none_goes_on(place):
    shutil.rmtree(place / "site" / "torch")
    script = (
        "try:\n    import torch\nexcept ImportError as error:\n    print(error.name, type(error).__name__)\nimport"
        " importlib.util; print(importlib.util.find_spec('torch'))"
    )
    done = run(place, "-c", script, env={"PYTHONPATH": str(place / "mfu" / "_inject")}, python=_bare(place))
    assert done.stdout == "torch ModuleNotFoundError\nNone\n", done.stderr


def _bare(place):
    """A Python without torch: a fresh venv. For us, an environment of conda is the same."""
    folder = place / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    return str(folder / "bin" / "python")


def test_a_torch_that_fails_fails_as_before(place):
    (place / "site" / "torch" / "__init__.py").write_text("raise OSError('libcudart is not there')\n")
    done = run(place, "-c", "import torch")
    assert done.returncode == 1 and "OSError: libcudart is not there" in done.stderr and told(place) == []


def test_an_observer_that_fails_is_noted_and_nothing_else(place):
    (place / "mfu" / "_observer" / "__init__.py").write_text(
        "def start(*given, **asked):\n    raise RuntimeError('built for another torch')\n"
    )
    done = run(place, "-c", "import torch; print('fine')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
    [note] = (place / "region").glob("note-*.txt")
    assert "built for another torch" in note.read_text()
    assert "built for another torch" in run(place, "-c", "import torch", env={"MFU_DEBUG": "1"}).stderr


def test_a_missing_observer_or_region_folder_is_no_reason_to_stop(place):
    shutil.rmtree(place / "mfu" / "_observer")
    shutil.rmtree(place / "region")
    done = run(place, "-c", "import torch; print('fine')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


def test_the_users_own_sitecustomize_runs_as_the_real_one(place):
    mine = place / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text(
        "import sys\nVALUE = 7\nassert sys.modules[__name__].__dict__ is globals()\n"
    )
    done = run(
        place, "-c", "import sitecustomize as s; print(s.VALUE, s.__name__, s.__file__); import torch", path=[mine]
    )
    assert done.stdout == f"7 sitecustomize {mine / 'sitecustomize.py'}\n", done.stderr
    assert told(place) == ["torch", "started"]


@pytest.mark.parametrize("body", ["raise ValueError('mine')", "import nothing_of_that_name", "import sys; sys.exit(3)"])
def test_what_the_users_sitecustomize_raises_is_reported_as_before(place, body):
    mine = place / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text(body + "\n")
    with_us = run(place, "-c", "import torch; print('on')", path=[mine])
    without = run(place, "-c", "import torch; print('on')", env={"PYTHONPATH": f"{mine}{os.pathsep}{place / 'site'}"})
    # If Python prints a traceback, it contains our frame; the message is the same.
    assert (with_us.returncode, with_us.stdout, with_us.stderr.splitlines()[-1:]) == (
        without.returncode,
        without.stdout,
        without.stderr.splitlines()[-1:],
    )


def test_a_user_that_imports_torch_in_sitecustomize_is_observed(place):
    mine = place / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("import torch\n")
    run(place, "-c", "pass", path=[mine])
    assert told(place) == ["torch", "started"]


def test_children_are_observed_and_keep_the_path(place):
    script = place / "children.py"
    script.write_text("""
import multiprocessing, os, subprocess, sys

def work():
    import torch

if __name__ == "__main__":
    for method in ("spawn", "fork", "forkserver"):
        child = multiprocessing.get_context(method).Process(target=work)
        child.start(); child.join()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    print(os.environ["PYTHONPATH"])
""")
    done = run(place, str(script))
    assert done.stdout.strip().startswith(str(place / "mfu" / "_inject")), done.stderr
    assert told(place) == ["torch", "started"] * 4


def test_modules_scripts_and_zip_programs(place):
    (place / "site" / "app").mkdir()
    (place / "site" / "app" / "__init__.py").write_text("")
    (place / "site" / "app" / "__main__.py").write_text("import torch, sys; sys.exit(5)\n")
    assert run(place, "-m", "app").returncode == 5
    script = place / "script"
    script.write_text(f"#!{sys.executable}\nimport torch\n")
    script.chmod(0o755)
    assert run(place, python=str(script)).returncode == 0
    shutil.make_archive(str(place / "app"), "zip", place / "site" / "app")
    assert run(place, str(place / "app.zip")).returncode == 5
    assert told(place) == ["torch", "started"] * 3


LOOKERS = {
    "find_spec": "import importlib.util; assert importlib.util.find_spec('torch').origin.endswith('__init__.py')",
    "find_spec twice": "import importlib.util as u; u.find_spec('torch'); u.find_spec('torch')",
    "find_loader": (  # deprecated in 3.12, removed in 3.14
        "import pkgutil, warnings; warnings.simplefilter('ignore'); getattr(pkgutil, 'find_loader', str)('torch')"
    ),
    "path finder": "from importlib.machinery import PathFinder; assert PathFinder.find_spec('torch')",
    "spec from hand": "import importlib.util as u; u.module_from_spec(u.find_spec('torch'))",
    "resources": (
        "import importlib.util as u; assert u.find_spec('torch').loader.get_resource_reader('torch') is not None"
    ),
    "metadata": (
        "import importlib.metadata as m; list(m.packages_distributions()) if hasattr(m, 'packages_distributions') else"
        " None"
    ),
    "another hook": (
        """
import importlib.abc, importlib.util, sys
class Hook(importlib.abc.MetaPathFinder):
    busy = False
    def find_spec(self, name, path=None, target=None):
        if name != 'torch' or self.busy: return None
        self.busy = True
        try: return importlib.util.find_spec(name)
        finally: self.busy = False
sys.meta_path.insert(0, Hook())
importlib.util.find_spec('torch')
"""
    ),
    "threads": (
        """
import importlib.util, threading
threads = [threading.Thread(target=importlib.util.find_spec, args=('torch',)) for _ in range(32)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
    ),
}
IMPORTS = {
    "import": "import torch",
    "import_module": "import importlib; importlib.import_module('torch')",
    "lazy": (
        """
import importlib.util as u, sys
spec = u.find_spec('torch'); spec.loader = u.LazyLoader(spec.loader)
torch = u.module_from_spec(spec); sys.modules['torch'] = torch; spec.loader.exec_module(torch); torch.__version__
"""
    ),
    "by hand": (
        """
import importlib.util as u, sys
spec = u.find_spec('torch')
torch = u.module_from_spec(spec)
sys.modules['torch'] = torch
spec.loader.exec_module(torch)
"""
    ),
    "thread": "import threading; t = threading.Thread(target=__import__, args=('torch',)); t.start(); t.join()",
    "reload": "import importlib, torch; importlib.reload(torch)",
}


@pytest.mark.parametrize("imported", IMPORTS)
@pytest.mark.parametrize("looked", LOOKERS)
def test_whoever_looks_torch_up_first(place, looked, imported):
    """transformers, datasets, peft and others look for torch before anybody imports it."""
    done = run(
        place,
        "-c",
        f"{LOOKERS[looked]}\n{IMPORTS[imported]}\nimport sys;"
        " print(type(sys.modules['torch'].__spec__.loader).__name__)",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "SourceFileLoader\n", ""), done
    assert told(place).count("started") == 1 and told(place)[0] == "torch"


def test_a_torch_that_fails_first_and_is_imported_again(place):
    (place / "site" / "torch" / "__init__.py").write_text(
        "import os\nif os.environ.pop('FAIL', None): raise ImportError('not yet')\nopen(os.environ['TOLD'],"
        " 'a').write('torch\\n')\n"
    )
    done = run(
        place,
        "-c",
        "try:\n    import torch\nexcept ImportError: pass\nimport torch; import sys; print(len(sys.meta_path))",
        env={"FAIL": "1"},
    )
    assert done.returncode == 0 and told(place) == ["torch", "started"], done.stderr


def test_thirty_threads_import_torch_at_once(place):
    script = (
        "import threading\nts = [threading.Thread(target=__import__, args=('torch',)) for _ in range(30)]\n[t.start()"
        " for t in ts]\n[t.join() for t in ts]"
    )
    assert run(place, "-c", script).returncode == 0 and told(place) == ["torch", "started"]


def test_run_by_runpy_and_in_a_namespace_of_its_own(place):
    (place / "program.py").write_text("import importlib.util\nimportlib.util.find_spec('torch')\nimport torch\n")
    assert (
        run(place, "-c", f"import runpy; runpy.run_path({str(place / 'program.py')!r}, run_name='__main__')").returncode
        == 0
    )
    assert told(place) == ["torch", "started"]


@pytest.mark.parametrize("flag", ["-S", "-E", "-I"])
def test_a_python_told_to_ignore_the_environment_runs_as_ever(place, flag):
    """Such a process cannot be observed; `mfu run` says so if it observed none."""
    done = run(place, flag, "-c", "print('fine')")
    assert (done.returncode, done.stdout, done.stderr, told(place)) == (0, "fine\n", "", [])


def test_without_a_region_folder_it_only_hands_on(place):
    assert run(place, "-c", "import torch", region=False).returncode == 0
    assert told(place) == ["torch"]


def test_another_package_called_mfu_is_left_alone(place):
    (place / "site" / "mfu").mkdir()
    (place / "site" / "mfu" / "__init__.py").write_text("WHOSE = 'theirs'\n")
    done = run(place, "-c", "import torch, mfu; print(mfu.WHOSE)")
    assert done.stdout == "theirs\n" and told(place) == ["torch", "started"]


@pytest.mark.parametrize("python", OLD or [""], ids=lambda path: path.split("/")[-3] if path else "none")
def test_any_python_a_program_calls_starts_as_ever(place, python):
    if not python:
        pytest.skip("another Python is not at hand")
    mine = place / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("VALUE = 7\n")
    done = run(
        place, "-c", "import sitecustomize; print(sitecustomize.VALUE); import torch", path=[mine], python=python
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
    expected = (
        ["torch", "started"] if "/2.7" not in python and "/3.6" not in python and "/3.7" not in python else ["torch"]
    )
    assert told(place) == expected


def test_the_start_costs_next_to_nothing(place):
    """By Python's own record of imports: our file imports no module that a plain start does not import."""
    def modules(path):
        return set(
            run(place, "-c", "import sys; print(' '.join(sys.modules))", env={"PYTHONPATH": path}).stdout.split()
        )

    extra = modules(str(place / "mfu" / "_inject")) - modules("")
    assert extra <= {"sitecustomize"}, extra
