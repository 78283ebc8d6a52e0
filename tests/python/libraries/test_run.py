"""What `mfu run` says about programs whose products the dispatcher does not see."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MFU = os.environ.get("MFU_BINARY", str(HERE.parents[2] / "build" / "release" / "mfu"))

PROGRAM = """
import torch
import transformer_engine.pytorch as te
layer = te.Linear(8, 10)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    layer(torch.randn(6, 8, requires_grad=True)).sum().backward()
    optimizer.step()
"""


def run(tmp_path, program, *options, **environment):
    (tmp_path / "train.py").write_text(program)
    env = {**os.environ, "PYTHONPATH": str(HERE / "standins"), "MFU_DEBUG": "1", **environment}
    done = subprocess.run(
        [MFU, "run", "--json-file", "out.json", "--dir", "run", *options, "--", sys.executable, "train.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((tmp_path / "out.json").read_text()), done.stdout + done.stderr


def test_a_counted_library_leaves_nothing_out(tmp_path):
    found, text = run(tmp_path, PROGRAM)
    assert found["flop_by_operator"] == {"transformer_engine::generic_gemm": 6 * 3 * 2 * 6 * 8 * 10}
    assert found["coverage"]["complete"] is True and found["contradictions"] == []
    assert found["coverage"]["libraries"] == [
        {"name": "transformer_engine", "version": "2.8.0+abc", "counted": True, "why": None}
    ]
    assert "none left out" in text
    assert {each["phase"] for each in found["phases"] if each["model_flop"]} == {"train"}


@pytest.mark.parametrize("version", ["3.0.0"])
def test_an_unknown_version_makes_the_number_a_lower_bound(tmp_path, version):
    found, text = run(tmp_path, PROGRAM, STANDIN_VERSION=version)
    assert found["coverage"]["complete"] is None
    (library,) = found["coverage"]["libraries"]
    assert library["name"] == "transformer_engine" and library["version"] == version and library["counted"] is False
    assert "none left out" not in text and "lower bound" in text and "transformer_engine 3.0.0" in text


BYPASS = """
import numpy as np
import torch


class Hidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.from_numpy(np.dot(x.detach().numpy(), w.detach().numpy().T))

    @staticmethod
    def backward(ctx, g):
        x, w = (each.detach().numpy() for each in ctx.saved_tensors)
        return torch.from_numpy(np.dot(g.numpy(), w)), torch.from_numpy(np.dot(g.numpy().T, x))


w = torch.nn.Parameter(torch.randn(16, 8))
head = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD([w, *head.parameters()], lr=0.01)
for _ in range(4):
    optimizer.zero_grad()
    head(Hidden.apply(torch.randn(32, 8, requires_grad=True), w)).sum().backward()
    optimizer.step()
"""


def test_a_program_that_multiplies_by_a_way_nobody_named_is_contradicted(tmp_path):
    found, text = run(tmp_path, BYPASS)
    assert found["coverage"]["complete"] is False and len(found["contradictions"]) == 1
    assert "Hidden" in found["contradictions"][0] and "__main__" in found["contradictions"][0]
    assert "none left out" not in text and "contradiction" in text


OPERATORS = """
import numpy as np
import torch
from torch import Tensor, nn


def array(tensor):
    return tensor.detach().numpy()


def operator(name, body):
    return torch.library.custom_op(name, body, mutates_args=())


def product(x: Tensor, w: Tensor) -> Tensor:
    return torch.from_numpy(array(x) @ array(w).T)


def counted(x: Tensor, w: Tensor) -> Tensor:
    return x @ w.t()


def distances(x: Tensor, w: Tensor) -> Tensor:
    return (x[:, None] - w[None]).abs().sum(-1)


def scaled(x: Tensor, w: Tensor) -> Tensor:
    return torch.from_numpy(array(x) * array(w)[0])


def looked_up(x: Tensor, w: Tensor) -> Tensor:
    return torch.from_numpy(array(w)[array(x[:, 0] > 0).astype(int)])


made = [operator("mine::frob" + str(i), body) for i, body in enumerate([BODIES])]
first, w, head = nn.Linear(8, 8), torch.randn(10, 8), nn.Linear(8, 4)
with torch.no_grad():
    for _ in range(8):
        x = first(torch.randn(32, 8))
        for each in made:
            each(x, w)
        head(x)
"""


@pytest.mark.parametrize(
    ("bodies", "named"),
    [("product", True), ("counted, distances, scaled, looked_up", False)],
)
def test_an_operator_of_the_program_that_may_hide_a_product_is_named(tmp_path, bodies, named):
    found, text = run(tmp_path, OPERATORS.replace("BODIES", bodies))
    assert found["coverage"]["complete"] is (None if named else True)
    assert ("mine::frob0 (operator) computes past torch's dispatcher" in text) is named
    assert ("none left out" in text) is not named


def test_a_formula_counts_an_operator_that_was_examined(tmp_path):
    late = OPERATORS.replace("BODIES", "product").replace(
        "        head(x)",
        "        head(x)\n"
        "import mfu\n"
        "mfu.formula('mine::frob0', lambda x, w: 2 * x.numel() * w.shape[0])\n"
        "made[0](x, w)",
    )
    found, _ = run(tmp_path, late)
    assert found["flop_by_operator"]["mine::frob0"] == 2 * 32 * 8 * 10
