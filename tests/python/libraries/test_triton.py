"""Triton kernels of the program: a kernel that multiplies is named with its calls and grid, any other is listed."""

import importlib
import sys

import pytest
import torch
from conftest import HERE


def inner(a, b):
    return a.dot(b)


def mm_kernel(a, b, c, m, BLOCK=16):
    c.copy_(a.float().numpy().dot(b.float().numpy()).sum() * torch.ones(1))


def add_kernel(x, y, n, BLOCK=16):
    return x + y


@pytest.fixture
def triton(observer, monkeypatch):
    from mfu._observer import libraries

    monkeypatch.syspath_prepend(str(HERE / "standins_triton"))
    libraries.install(observer.library())
    yield importlib.import_module("triton.runtime.jit"), importlib.import_module("triton.runtime.autotuner")
    for name in [each for each in sys.modules if each.partition(".")[0] == "triton"]:
        del sys.modules[name]


def operands():
    return torch.randn(4, 5), torch.randn(5, 6), torch.empty(1)


def test_a_kernel_that_multiplies_is_named_with_its_calls_and_grid(triton, count):
    kernel = triton[0].JITFunction(mm_kernel)
    (named,) = count(lambda: [kernel[(4, 2)](*operands(), 4, BLOCK=16) for _ in range(3)]).uncounted()
    assert named["operator"] == "triton::mm_kernel" and named["calls"] == 3 and "grid 4 × 2" in named["reason"]


def test_a_kernel_that_multiplies_nothing_is_listed_with_no_flop(triton, count):
    kernel = triton[0].JITFunction(add_kernel)
    counted = count(lambda: kernel[(4,)](torch.ones(2), torch.ones(2), 2, BLOCK=16))
    assert counted.uncounted() == [] and counted.rows["triton::add_kernel", "unknown", ""]["calls"] == 1


def test_what_the_autotuner_tries_is_not_counted(triton, count):
    kernel = triton[1].Autotuner(triton[0].JITFunction(mm_kernel), [{"BLOCK": 16}, {"BLOCK": 32}])
    (named,) = count(lambda: kernel.run(*operands(), 4, grid=(1,), warmup=False)).uncounted()
    assert named["calls"] == 1


def test_a_kernel_that_raises_raises_the_same(triton, count):
    def broken(a):
        raise ValueError("theirs")

    kernel = triton[0].JITFunction.__new__(triton[0].JITFunction)
    kernel.fn, kernel.src, kernel.__name__ = broken, "", "broken"
    with pytest.raises(ValueError, match="theirs"):
        kernel[(1,)](torch.ones(1))
