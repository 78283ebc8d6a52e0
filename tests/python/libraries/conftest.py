import importlib
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.append(str(ROOT / "python"))

torch = pytest.importorskip("torch")

OURS = (
    "transformer_engine",
    "flash_attn",
    "grouped_gemm",
    "deep_gemm",
    "flashinfer",
    "apex",
    "xformers",
    "unsloth",
    "fused_",
    "mlp_cuda",
)


@pytest.fixture(scope="session")
def observer():
    from mfu import _observer

    _observer.start(region_folder="")
    yield _observer
    _observer.stop()


@pytest.fixture
def count(observer):
    def counted(function):
        observer.phases(settle=True)
        before = observer.totals()
        function()
        return observer.totals() - before

    return counted


@pytest.fixture
def standin(observer, monkeypatch):
    """standin("flash_attn", version="2.6.3") imports the stand-in as a program would; standin.said has what mfu says of
    it."""
    from mfu._observer import libraries
    from mfu._observer.libraries import wrapping

    loaded = observer.library()
    said = {}
    monkeypatch.syspath_prepend(str(HERE / "standins"))
    fact = loaded.fact

    def heard(key, value):
        if key == b"library":
            name, version, state, why = value.decode().split("\t")
            said[name] = (version, state, why)
        fact(key, value)

    monkeypatch.setattr(loaded, "fact", heard)

    def forget():
        wrapping._told.clear()
        for name in [each for each in sys.modules if each.startswith(OURS)]:
            del sys.modules[name]

    def load(*names, version=None):
        forget()
        if version is not None:
            monkeypatch.setenv("STANDIN_VERSION", version)
        else:
            os.environ.pop("STANDIN_VERSION", None)
        libraries.install(loaded)
        return [importlib.import_module(name) for name in names]

    load.said = said
    yield load
    forget()
