"""Modules that did not come by an import: the program put them into sys.modules, or took them apart before mfu
watched."""

import sys
import types

import pytest
import torch
from test_run import run

GMM = """
import sys, types
made = types.ModuleType("grouped_gemm_backend")
def gmm(a, b, c, batch_sizes, trans_a, trans_b):
    import torch
    return torch.zeros(a.shape[0], b.shape[2])
{before}
sys.modules["grouped_gemm_backend"] = made
made.gmm = gmm
{after}
import torch
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(4):
    y = layer(torch.randn(9, 8))
    {call}(y, torch.randn(3, 8, 10), None, torch.tensor([4, 0, 5]), False, False)
    y.sum().backward()
    optimizer.step()
"""
FLOP = 4 * 2 * 9 * 8 * 10


@pytest.mark.parametrize(
    "before, after, call",
    [
        ("", "import grouped_gemm_backend", "grouped_gemm_backend.gmm"),
        ("", "from grouped_gemm_backend import gmm as other", "other"),
        ("import torch", "from grouped_gemm_backend import gmm", "gmm"),
    ],
    ids=["before torch", "under another name", "after torch"],
)
def test_a_module_put_there_by_hand_counts(tmp_path, before, after, call):
    found, text = run(tmp_path, GMM.format(before=before, after=after, call=call))
    assert found["flop_by_operator"]["grouped_gemm::gmm"] == FLOP
    assert found["coverage"]["complete"] is True and "none left out" in text


def test_a_function_that_other_code_already_holds_makes_the_number_a_lower_bound(tmp_path):
    after = "class Experts:\n    multiply = staticmethod(made.gmm)"
    found, text = run(tmp_path, GMM.format(before="", after=after, call="Experts.multiply"))
    assert found["coverage"]["complete"] is None and "none left out" not in text
    (library,) = found["coverage"]["libraries"]
    assert library["name"] == "grouped_gemm" and "before mfu watched" in library["why"]


NEVER_WATCHED = """
import torch, sys, types
made = types.ModuleType("deep_gemm")
made.fp8_gemm_nt = lambda a, b, d: d.zero_()
sys.modules["deep_gemm"] = made
for _ in range(3):
    made.fp8_gemm_nt(torch.zeros(6, 8), torch.zeros(10, 8), torch.zeros(6, 10))
"""


def test_a_module_that_was_found_too_late_is_named(tmp_path):
    found, text = run(tmp_path, NEVER_WATCHED)
    assert found["coverage"]["complete"] is None and "none left out" not in text
    assert [each["name"] for each in found["coverage"]["libraries"]] == ["deep_gemm"]


def test_a_version_that_comes_later_or_cannot_be_read_is_not_counted(standin, count, monkeypatch):
    (backend,) = standin("grouped_gemm_backend")
    call = lambda: backend.gmm(  # noqa: E731
        torch.randn(9, 8), torch.randn(3, 8, 10), torch.zeros(9, 10), torch.tensor([4, 0, 5]), False, False
    )
    assert count(call).flop_by_operator() == {"grouped_gemm::gmm": 2 * 9 * 8 * 10}
    from mfu._observer import imports

    package = types.ModuleType("grouped_gemm")
    package.__version__ = "unheard of"
    monkeypatch.setitem(sys.modules, "grouped_gemm", package)
    imports._imported("grouped_gemm", package)
    assert "grouped_gemm::gmm" not in count(call).flop_by_operator()
    assert standin.said["grouped_gemm"][1] == "unknown"


PACKAGE = """
{before}
import sys, types
backend = types.ModuleType("grouped_gemm_backend")
def gmm(a, b, c, batch_sizes, trans_a, trans_b):
    import torch
    return torch.zeros(a.shape[0], b.shape[2])
backend.gmm = gmm
sys.modules["grouped_gemm_backend"] = backend
import grouped_gemm.ops
__version__ = "{version}"
"""
OPS = """
import torch
import grouped_gemm_backend
from grouped_gemm_backend import gmm as multiply
import wave
"""
USER = """
{imports}
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(4):
    y = layer(torch.randn(9, 8))
    grouped_gemm.ops.multiply(y, torch.randn(3, 8, 10), None, torch.tensor([4, 0, 5]), False, False)
    y.sum().backward()
    optimizer.step()
"""


def use(tmp_path, imports, version, before="import torch", extension=None):
    package = tmp_path / "site" / "grouped_gemm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE.format(before=before, version=version))
    (package / "ops.py").write_text(OPS)
    if extension:  # found by an import, as an extension is
        text = PACKAGE.format(before="", version=version).splitlines()
        (package / "__init__.py").write_text(f'{before}\nimport grouped_gemm.ops\n__version__ = "{version}"\n')
        (tmp_path / "site" / "grouped_gemm_backend.py").write_text("\n".join(text[4:7]) + "\n")
    return run(tmp_path, USER.format(imports=imports), PYTHONPATH=str(tmp_path / "site"))


@pytest.mark.parametrize("extension", [False, True], ids=["by hand", "imported"])
@pytest.mark.parametrize("imports", ["import grouped_gemm, torch", "import torch, grouped_gemm"])
def test_a_package_that_takes_functions_under_other_names_counts(tmp_path, imports, extension):
    """Also one that imports torch itself: its import began before mfu watched, and its end is noticed."""
    found, text = use(tmp_path, imports, "1.1", extension=extension)
    assert found["flop_by_operator"]["grouped_gemm::gmm"] == FLOP
    assert found["coverage"]["libraries"] == [
        {"name": "grouped_gemm", "version": "1.1", "counted": True, "why": None}
    ]
    assert found["coverage"]["complete"] is True and "none left out" in text


@pytest.mark.parametrize("imports", ["import grouped_gemm, torch", "import torch, grouped_gemm"])
def test_a_package_that_says_an_unknown_version_at_its_end_is_left_alone(tmp_path, imports):
    found, text = use(tmp_path, imports, "9.0", extension=True)
    assert "grouped_gemm::gmm" not in found["flop_by_operator"]
    (library,) = found["coverage"]["libraries"]
    assert library["version"] == "9.0" and library["counted"] is False
    assert found["coverage"]["complete"] is None and "none left out" not in text
