"""With a Python that is not relocatable, such as Debian's and Ubuntu's own, the heap begins at low addresses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not at hand")
ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import torch
from torch import nn
from mfu import _observer

_observer.start(region_folder="")
for _ in range(5):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(4, 6)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    del model, optimizer
rows = _observer.phases(settle=True)
print([(key[0], row["model"], row["passes"]) for key, row in rows.items() if row["passes"]])
"""


def not_relocatable(path):
    try:
        with open(path, "rb") as file:
            return file.read(18)[16] == 2  # ET_EXEC
    except OSError:
        return False


def test_a_model_in_the_place_of_one_that_is_gone_is_known(tmp_path):
    places = (sys.executable, "/usr/bin/python%d.%d" % sys.version_info[:2])
    python = next((path for path in places if not_relocatable(os.path.realpath(path))), None)
    if python is None:
        pytest.skip("a Python that is not relocatable is not at hand")
    packages = [str(ROOT / "build" / "release" / "python"), str(Path(torch.__file__).parents[1])]
    done = subprocess.run(
        [python, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(packages)),
        cwd=tmp_path,
    )
    assert done.stdout == "[('train', 'Sequential', 15)]\n", done.stdout + done.stderr
