"""Runs a step eagerly and compiled in the mode of argv[1], and prints what both counted, as JSON."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "python")]

import torch  # noqa: E402
from models import Gpt, gpt_step  # noqa: E402
from mfu import _observer  # noqa: E402


def difference(function):
    before = _observer.totals()
    function()
    return _observer.totals() - before


def shown(got):
    return {
        name: got.values[name] for name in ("hardware_flop", "model_flop", "recomputed_flop", "tokens", "samples")
    } | {"operators": got.flop_by_operator(), "uncounted": got.uncounted()}


def main(mode):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    _observer.start(region_folder="")
    model = Gpt(layers=1, width=16, heads=2, checkpoint="plain" if mode == "checkpoint" else None)
    ids = torch.randint(0, 64, (2, 8))
    inference = mode == "freezing"
    if inference:
        model.eval()

    def infer(call, batch=2):
        with torch.no_grad():
            call(ids[:batch])

    def run(call, batch=2):
        infer(call, batch) if inference else gpt_step(call, batch, 8)

    options = {
        "cpp_wrapper": {"options": {"cpp_wrapper": True}},
        "freezing": {"options": {"freezing": True}},
        "dynamic": {"dynamic": True},
        "max-autotune": {"mode": "max-autotune"},
        "reduce-overhead": {"mode": "reduce-overhead"},
    }.get(mode, {})
    eager = difference(lambda: run(model))
    compiled = torch.compile(model, **options)
    first = difference(lambda: run(compiled))
    second = difference(lambda: run(compiled))
    result = {"eager": shown(eager), "first": shown(first), "second": shown(second)}
    if mode == "dynamic":
        result["eager"], result["first"] = shown(difference(lambda: run(model, 5))), shown(
            difference(lambda: run(compiled, 5))
        )
        result["second"] = result["first"]
    print(json.dumps(result))


main(sys.argv[1])
