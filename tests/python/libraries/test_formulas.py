"""Formulas that the user gives for operators and Triton kernels, from Python and from a file."""

import json
import os
import subprocess
import sys

import pytest
import torch
from test_run import HERE, MFU, run

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
        'formulas:\n  - name: mine::secret\n    flop: "2*m*n*k"\n    where: {m: "a0.shape[0]", k: "a0.shape[1]", n:'
        ' "a1.shape[1]"}\n    dtype: fp16\n'
    )
    found, _ = run(tmp_path, PROGRAM, "--formulas", "formulas.yaml")
    assert found["flop_by_operator"] == {"mine::secret": 3 * 2 * 3 * 4 * 5} and list(found["flop_by_dtype"]) == ["fp16"]
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


def test_a_function_is_a_formula_and_gets_the_arguments(formula, count):
    define("matmul_by_function", lambda a, b, c: torch.from_numpy(a.numpy() @ b.numpy()))
    call = lambda: torch.ops.mfu_user.matmul_by_function(torch.randn(3, 4), torch.randn(4, 5), 7)  # noqa: E731
    named = count(call)  # its name looks like a product, and nobody knows it
    assert named.hardware_flop == 0 and named.uncounted()[0]["operator"] == "mfu_user::matmul_by_function"
    got = []

    def cost(a, b, c):
        got.append((a.shape, a.dtype, b.numel(), b.dim(), b.size(1), c))
        return 2 * a.shape[0] * b.numel()

    formula("mfu_user::matmul_by_function", cost, dtype="fp16")
    counted = count(call)
    assert got == [((3, 4), "fp32", 20, 2, 5, 7)]
    assert counted.flop_by_operator() == {"mfu_user::matmul_by_function": 2 * 3 * 4 * 5} and not counted.uncounted()
    assert {key[1] for key in counted.rows} == {"fp16"}
    formula("mfu_user::matmul_by_function", "7")  # the last formula counts
    assert count(call).hardware_flop == 7 and len(got) == 1


@pytest.mark.parametrize(
    "bad", [lambda *a: 1 / 0, lambda *a: -1, lambda *a: 1.5, lambda *a: None, lambda a: 1, lambda *a: True]
)
def test_a_function_that_fails_is_noted_and_its_calls_are_listed(formula, count, observer, bad):
    name = f"bad_{id(bad)}"
    define(name, lambda a, b, c: a @ b)
    formula(f"mfu_user::{name}", bad)
    call = lambda: getattr(torch.ops.mfu_user, name)(torch.randn(3, 4), torch.randn(4, 5), 7)  # noqa: E731
    counted = count(call)
    assert counted.hardware_flop == 0 and "could not say" in counted.uncounted()[0]["reason"]
    assert count(lambda: torch.ones(2, 3) @ torch.ones(3, 4)).hardware_flop == 48  # counting continues


def test_products_that_a_function_makes_itself_do_not_count(formula, count):
    define("asks", lambda a, b, c: a + 1)
    formula("mfu_user::asks", lambda a, b, c: int((torch.ones(9, 9) @ torch.ones(9, 9)).sum() * 0) + 5)
    assert count(lambda: torch.ops.mfu_user.asks(torch.ones(2), torch.ones(2), 1)).hardware_flop == 5


def test_a_function_runs_on_the_thread_of_the_backward_too(formula, count):
    define("in_backward", lambda a, b, c: a * 1)

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return torch.ops.mfu_user.in_backward(g, g, 3)

    formula("mfu_user::in_backward", lambda a, b, c: a.numel() * c)
    x = torch.ones(4, requires_grad=True)
    assert count(lambda: Function.apply(x).sum().backward()).hardware_flop == 12


def test_what_is_neither_expression_nor_function_is_refused(formula):
    import mfu

    with pytest.raises(mfu.InvalidArgument, match="expression or a function"):
        formula("mfu_user::thing", 5)
    with pytest.raises(mfu.InvalidArgument, match="where"):
        formula("mfu_user::thing", lambda *a: 1, {"m": "a0"})


def test_a_run_counts_by_a_function(tmp_path):
    found, _ = run(
        tmp_path,
        "import torch, mfu\n"
        "lib = torch.library.Library('own', 'DEF')\n"
        "lib.define('gemm(Tensor a, Tensor b) -> Tensor')\n"
        "lib.impl('gemm', lambda a, b: torch.from_numpy(a.numpy() @ b.numpy()), 'CPU')\n"
        "mfu.formula('own::gemm', lambda a, b: 2 * a.numel() * b.shape[1])\n"
        "for _ in range(3): torch.ops.own.gemm(torch.ones(2, 3), torch.ones(3, 4))\n",
        PYTHONPATH=os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(HERE.parents[2] / "python")]),
    )
    assert found["flop_by_operator"] == {"own::gemm": 3 * 48} and found["coverage"]["complete"] is True
