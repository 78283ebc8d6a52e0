"""A C++ program on libtorch under `mfu run` with the observer preloaded, as docs/python.md describes."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))
PROGRAM = """// A libtorch program that knows nothing of mfu: four steps of one matmul and its two gradients.
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/record_function.h>

int main() {
  at::Tensor x = at::randn({8, 16}), w = at::randn({16, 32}).requires_grad_(true);
  for (int step = 0; step < 4; ++step) {
    RECORD_USER_SCOPE("train step");
    at::Tensor y = at::mm(x, w);
    y.sum().backward();
  }
  return w.grad().numel() == 16 * 32 ? 0 : 1;
}
"""
LIBRARY = ROOT / "build" / "release" / "torch" / "libmfu_torch.so"


def test_a_program_on_libtorch_is_counted(tmp_path):
    torch = pytest.importorskip("torch")
    if (
        shutil.which("g++") is None
        or not LIBRARY.is_file()
        or LIBRARY.with_suffix(".torch").read_text().split()[0] != torch.__version__
    ):
        pytest.skip("a compiler, or an observer built for this torch, is not at hand")
    folder = Path(torch.__file__).parent
    program, source = str(tmp_path / "program"), tmp_path / "program.cc"
    source.write_text(PROGRAM)
    subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-O0",
            "-DNDEBUG",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
            str(source),
            "-isystem",
            f"{folder}/include",
            "-isystem",
            f"{folder}/include/torch/csrc/api/include",
            f"-L{folder}/lib",
            "-ltorch_cpu",
            "-lc10",
            f"-Wl,-rpath,{folder}/lib",
            "-o",
            program,
        ],
        check=True,
        timeout=300,
    )
    done = subprocess.run(
        [
            MFU,
            "run",
            "--dir",
            str(tmp_path / "run"),
            "--step-marker",
            "train step",
            "--",
            "env",
            f"LD_PRELOAD={LIBRARY}",
            "MFU_OBSERVER_PRELOADED=1",
            program,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 and done.stdout == "", done.stderr
    report = json.loads((tmp_path / "run" / "summary.json").read_text())
    # Forward and the weight's gradient; x needs none.
    assert (report["steps"], report["model_flop"]) == (4, 4 * 2 * (2 * 8 * 16 * 32))
