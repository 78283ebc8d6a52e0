"""Asks for every device of the catalogue and every data type in every way there is. All must give the same answer and
the same reason."""
import json
import os
import subprocess
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mfu
from mfu import _core, callbacks, compat

MFU = os.environ.get("MFU_COMMAND", str(Path(__file__).resolve().parents[3] / "build" / "release" / "mfu"))
TYPES = ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "int8", "int4"]
SHAPE = ["--layers", "2", "--hidden", "64", "--heads", "4", "--vocab", "100", "--seq", "64"]
WIDER = {
    "fp4": "fp8",
    "fp6": "fp8",
    "fp8": "bf16",
    "int4": "int8",
    "int8": "fp16",
    "fp16": "fp32",
    "bf16": "fp32",
    "tf32": "fp32",
}
SPEC = mfu.Model.of_shape(layers=2, hidden=64, heads=4, vocab=100)


def by_hand(device, dtype):
    """The rule, written a second time: the unit of the type itself, otherwise that of the next wider type."""
    own = {row["dtype"]: row["flop_per_s"] for row in device["peaks"] if row["used_for_mfu"]}
    while dtype is not None and dtype not in own:
        dtype = WIDER.get(dtype)
    return own.get(dtype)


def asked(call, *path):
    try:
        answer = call()
    except mfu.NotFound:
        return None
    for key in path:
        answer = answer[key]
    return answer


class Totals:
    """What an observer counted for one type, in the form that a callback's meter reads."""

    tokens, steps = 0, 1

    def __init__(self, dtype, flop):
        self.dtype, self.model_flop = dtype, flop
        self.rows = {("aten::mm", dtype, ""): {"model_flop": flop, "hardware_flop": flop}}

    def __sub__(self, before):
        return Totals(self.dtype, self.model_flop - before.model_flop)


def by_callback(device, dtype):
    """The peak behind the MFU that a callback logs for 2^40 FLOPs in 1 s. A power of two makes the division exact."""
    meter = callbacks.Meter(device=device)
    meter._open, meter._counted = True, types.SimpleNamespace(problem=None)
    readings = [
        {"time": float(i), "totals": Totals(dtype, i << 40), "profiled": 0, "model_flop": i << 40, "tokens": 0,
         "steps": i}
        for i in range(2)
    ]
    meter._last, meter._reading = readings[0], lambda: readings[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logged = meter.window()
    return None if "perf/mfu" not in logged else pytest.approx(2**40 / logged["perf/mfu"], rel=1e-12)


@pytest.fixture
def trace(tmp_path):
    """One matmul of 512 × 512 × 512 in bf16."""
    kernel = {"correlation": 3, "External id": 7}
    operator = {"External id": 7, "Input Dims": [[512, 512]] * 2, "Input type": ["c10::BFloat16"] * 2}
    rows = [
        ("cpu_op", "aten::mm", 1, 10, 50, operator),
        ("cuda_runtime", "cudaLaunchKernel", 1, 20, 5, kernel),
        ("kernel", "gemm", 0, 40, 1000, {**kernel, "device": 0, "stream": 7}),
    ]
    events = [
        {"ph": "X", "cat": kind, "name": name, "pid": pid, "tid": 1, "ts": start, "dur": duration, "args": more}
        for kind, name, pid, start, duration, more in rows
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": "x"}], "traceEvents": events}))
    return path


def test_python_has_one_answer_for_every_device_and_type(trace):
    pytest.importorskip("torch", reason="torch is not at hand")
    differ = []
    for device in mfu.devices():
        for dtype in TYPES:
            rule = by_hand(device, dtype)
            name = device.name
            ways = {
                "Peaks": _core.Peaks(name).choose(dtype)[0],
                "utilization": asked(lambda: mfu.utilization(10**12, 1.0, device=name, dtype=dtype), "peak_flop_per_s"),
                "flops": asked(
                    lambda: mfu.flops(SPEC, seq=64, device=name, dtype=dtype, step_seconds=1.0),
                    "utilization",
                    "peak_flop_per_s",
                ),
                "plan": asked(lambda: mfu.plan(flop=10**20, device=name, dtype=dtype), "peak_flop_per_s"),
                "counted": (
                    _core.Peaks(name).utilization([(dtype, False, 10**12, 10**12)], 1.0) or {"peak_flop_per_s": None}
                )["peak_flop_per_s"],
                "explain": mfu.explain(trace, device=name, dtype=dtype)["ranks"][0]["device"]["peak_flop_per_s"],
                "callbacks": by_callback(name, dtype),
            }
            differ += [(name, dtype, way, found, rule) for way, found in ways.items() if found != rule]
    assert not differ, f"{len(differ)} of {len(mfu.devices()) * len(TYPES)}: {differ[:5]}"


def command(*arguments):
    done = subprocess.run([MFU, *arguments, "--json"], capture_output=True, text=True)
    answer = json.loads(done.stdout)
    assert done.returncode in (0, 1) or answer["code"] == "not_found", done.stderr
    return None if "code" in answer else answer


def test_the_command_line_says_the_same():
    """Takes one device for each set of types in the catalogue, because the choice depends on nothing else."""
    kinds = {}
    for device in mfu.devices():
        kinds.setdefault(frozenset(row["dtype"] for row in device["peaks"] if row["used_for_mfu"]), device)
    questions = [(device, dtype) for device in kinds.values() for dtype in TYPES]

    def differences(question):
        device, dtype = question
        rule, against = by_hand(device, dtype), ["--device", device.name, "--dtype", dtype]
        need = command("flops", *SHAPE, *against, "--step-seconds", "1")
        plan = command("plan", "--flop", "1e20", *against)
        ways = {"flops": need and need["utilization"]["peak_flop_per_s"], "plan": plan and plan["peak_flop_per_s"]}
        return [(device.name, dtype, way, found, rule) for way, found in ways.items() if found != rule]

    with ThreadPoolExecutor(2) as pool:
        differ = [each for found in pool.map(differences, questions) for each in found]
    assert not differ, differ[:5]
    assert len(questions) > 300


def test_compat_takes_the_devices_peak_and_hands_the_documented_a100_over(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not at hand")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    names = [device.name for device in mfu.devices()]
    for name in [*names, "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"]:
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda name=name: name)
        monkeypatch.setattr(compat, "_peak", None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert compat.get_gpu_peak_flops() == (_core.Peaks(name).choose("bf16")[0] or 312e12), name
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a device nobody made")
    monkeypatch.setattr(compat, "_peak", None)
    monkeypatch.setattr(compat, "_said", set())
    with pytest.warns(RuntimeWarning, match="A100, 312 TFLOP/s, is taken"):
        assert compat.get_gpu_peak_flops() == 312e12


def test_fp32_convolutions_and_matmuls_follow_their_own_settings():
    a100 = "NVIDIA A100-SXM4-40GB"
    for matmul, convolution in ((False, False), (True, False), (False, True), (True, True)):
        peaks = _core.Peaks(a100, tf32_matmul=matmul, tf32_convolution=convolution)
        assert peaks.choose("fp32", convolution=False)[:2] == (
            (156e12, "tf32_allowed") if matmul else (19.5e12, "own_unit")
        )
        assert peaks.choose("fp32", convolution=True)[:2] == (
            (156e12, "tf32_allowed") if convolution else (19.5e12, "own_unit")
        )


def test_several_types_each_have_their_own_peak():
    """78e12 in bf16 at 312e12 take a quarter of a second; 4.875e12 in fp32 at 19.5e12 take another: half of one
    second."""
    used = _core.Peaks("NVIDIA A100-SXM4-40GB").utilization(
        [("bf16", False, 78 * 10**12, 78 * 10**12), ("fp32", False, 4875 * 10**9, 9750 * 10**9)], 1.0
    )
    assert used["mfu"] == pytest.approx(0.5) and used["hfu"] == pytest.approx(0.75) and used["complete"]
