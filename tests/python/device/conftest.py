import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "tests" / "device"))

torch = pytest.importorskip("torch")


@pytest.fixture(scope="session")
def late():
    import late

    return late


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    torch.set_num_threads(1)
