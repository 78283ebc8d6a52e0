"""Formulas of the user's: for operators and Triton kernels, from Python and from a file."""

import json
import os
import subprocess
import sys

import pytest
import torch
from test_run import MFU, run

LIBRARY = torch.library.Library("mfu_user", "FRAGMENT")


def define(name, function):
    LIBRARY.define(f"{name}(Tensor a, Tensor b, int c) -> Tensor")
    LIBRARY.impl(name, function, "CPU")


@pytest.fixture
def formula(observer):
    mfu = pytest.importorskip("mfu")
    return mfu.formula


def test_an_operator_counts_by_its_formula_and_covers_what_it_calls(formula, count):
    define("thing", lambda a, b, c: a @ b)
    call = lambda: torch.ops.mfu_user.thing(torch.randn(3, 4), torch.randn(4, 5), 7)  # noqa: E731
    assert count(call).hardware_flop == 2 * 3 * 4 * 5
    formula(
        "mfu_user::thing",
        "2*m*n*k*c",
        {"m": "a0.shape[0]", "k": "a0.shape[-1]", "n": "a1.shape[1]", "c": "a2"},
        "bf16",
    )
    counted = count(call)
    assert counted.flop_by_operator() == {"mfu_user::thing": 2 * 3 * 4 * 5 * 7} and {
        key[1] for key in counted.rows
    } == {"bf16"}


@pytest.mark.parametrize(
    "flop, said",
    [
        ("2*", "missing"),
        ("2*x", "neither in"),
        ("(1", "parenthesis"),
        ("a0.size", "after the dot"),
        ("1 2", "operator is missing"),
        ("9" * 30, "too large"),
        ("(" * 50 + "1" + ")" * 50, "deeply"),
        ("1" * 2000, "longer"),
        ("a0.shape[1", "bracket"),
        ("", "missing"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_place(formula, flop, said):
    import mfu

    with pytest.raises(mfu.InvalidArgument, match=said):
        formula("mfu_user::wrong", flop)


def test_a_name_that_means_itself_is_refused(formula):
    import mfu

    with pytest.raises(mfu.InvalidArgument, match="deeply"):
        formula("mfu_user::wrong", "m", {"m": "m + 1"})


def test_a_formula_that_does_not_fit_the_call_is_named_and_raises_nothing(formula, count):
    define("other", lambda a, b, c: a.clone())
    formula("mfu_user::other", "a0.shape[5]")
    (named,) = count(lambda: torch.ops.mfu_user.other(torch.ones(2), torch.ones(2), 1)).uncounted()
    assert "no such dimension" in named["reason"]


PROGRAM = """
import torch
library = torch.library.Library("mine", "FRAGMENT")
library.define("secret(Tensor a, Tensor b) -> Tensor")
library.impl("secret", lambda a, b: a.clone(), "CPU")
for _ in range(3):
    torch.ops.mine.secret(torch.randn(3, 4), torch.randn(4, 5))
"""


def test_a_file_gives_formulas_to_a_run(tmp_path):
    (tmp_path / "formulas.yaml").write_text(
        'formulas:\n  - name: mine::secret\n    flop: "2*m*n*k"\n    where: {m: "a0.shape[0]", k: "a0.shape[1]", n: "a1.shape[1]"}\n    dtype: fp16\n'
    )
    found, _ = run(tmp_path, PROGRAM, "--formulas", "formulas.yaml")
    assert found["flop_by_operator"] == {"mine::secret": 3 * 2 * 3 * 4 * 5} and list(found["flop_by_dtype"]) == [
        "fp16"
    ]
    assert found["coverage"]["complete"] is True


@pytest.mark.parametrize(
    "text, said",
    [
        ("formulas: 3", "list"),
        ("formulas: [{name: x}]", "needs a name and flop"),
        ('formulas: [{name: x, flop: "2*"}]', "missing"),
        ("[", "formulas.yaml"),
    ],
)
def test_a_wrong_file_is_refused_before_the_program_starts(tmp_path, text, said):
    (tmp_path / "formulas.yaml").write_text(text)
    for command in ("run", "explain"):
        rest = ["--", sys.executable, "-c", "print('ran')"] if command == "run" else ["none.json"]
        done = subprocess.run(
            [MFU, command, "--formulas", "formulas.yaml", "--json", *rest],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=os.environ,
        )
        assert done.returncode == 2 and "ran" not in done.stdout, done.stdout + done.stderr
        assert said in json.loads(done.stdout)["message"]
