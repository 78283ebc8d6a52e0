"""A C++ program on libtorch under `mfu run`, with the observer preloaded: docs/python.md says how."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))
LIBRARY = ROOT / "build" / "release" / "torch" / "libmfu_torch.so"


def test_a_program_on_libtorch_is_counted(tmp_path):
    torch = pytest.importorskip("torch")
    if shutil.which("g++") is None or not LIBRARY.is_file() or LIBRARY.with_suffix(".torch").read_text().strip() != torch.__version__.split("+")[0]:
        pytest.skip("no compiler, or no observer built for this torch")
    folder = Path(torch.__file__).parent
    program = str(tmp_path / "program")
    subprocess.run(["g++", "-std=c++20", "-O0", "-DNDEBUG", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", str(HERE / "preloaded.cc"), "-isystem", f"{folder}/include",
                    "-isystem", f"{folder}/include/torch/csrc/api/include", f"-L{folder}/lib", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{folder}/lib", "-o", program], check=True, timeout=300)
    done = subprocess.run([MFU, "run", "--dir", str(tmp_path / "run"), "--step-marker", "train step", "--", "env", f"LD_PRELOAD={LIBRARY}", "MFU_OBSERVER_PRELOADED=1", program],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == "", done.stderr
    report = json.loads((tmp_path / "run" / "summary.json").read_text())
    # Forward and the weight's gradient; x needs none.
    assert (report["steps"], report["model_flop"]) == (4, 4 * 2 * (2 * 8 * 16 * 32))
