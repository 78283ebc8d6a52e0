import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "tests" / "device"))

torch = pytest.importorskip("torch")

if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 12):  # such as Debian's torch

    class Unavailable(pytest.Item):
        def runtest(self):
            pytest.skip("a torch with what the test device overrides (2.12) is not at hand")

    class NotImported(pytest.Module):
        def collect(self):
            yield Unavailable.from_parent(self, name=self.path.stem)

    def pytest_pycollect_makemodule(module_path, parent):
        return NotImported.from_parent(parent, path=module_path)


@pytest.fixture(scope="session")
def late():
    import late

    return late


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    torch.set_num_threads(1)
