"""Makes an AOTInductor package at argv[2] (argv[1] is "make") or runs it ("run"), and prints what eager and the package
counted."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "python")]

import torch  # noqa: E402
from torch import nn  # noqa: E402


def main(verb, path):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, x = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval(), torch.randn(4, 16)
    if verb == "make":
        with torch.no_grad():
            torch._inductor.aoti_compile_and_package(torch.export.export(model, (x,)), package_path=path)
        return
    from mfu import _observer

    _observer.start(region_folder="")
    counted = []
    with torch.inference_mode():
        package = torch._inductor.aoti_load_package(path)
        for call in (model, package):
            before = _observer.totals()
            call(x)
            got = _observer.totals() - before
            counted.append({"hardware_flop": got.hardware_flop, "uncounted": got.uncounted()})
    print(json.dumps(counted))


main(*sys.argv[1:])
