import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Uses the package of the checkout if mfu is not installed: this part needs no compiled core.
sys.path.append(str(ROOT / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

torch = pytest.importorskip("torch")


@pytest.fixture(scope="session")
def observer():
    from mfu import _observer

    _observer.start(region_folder="")
    yield _observer
    _observer.stop()


@pytest.fixture
def count(observer):
    """count(function) returns what the function counted."""

    def counted(function):
        observer.phases(settle=True)  # counts what another test left pending, so that it does not appear in this one
        before = observer.totals()
        function()
        return observer.totals() - before

    return counted


@pytest.fixture
def oracle():
    """What torch's own counter says."""
    from torch.utils.flop_counter import FlopCounterMode

    def counted(function):
        with FlopCounterMode(display=False) as mode:
            function()
        return mode.get_total_flops()  # torch's own name for it

    return counted


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    torch.set_num_threads(1)
