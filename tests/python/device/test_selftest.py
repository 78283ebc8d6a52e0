"""mfu doctor --selftest passes here, and each check fails if its subject is broken on purpose."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_run import H100, MFU

ROOT = Path(__file__).resolve().parents[3]
NAMES = [
    "counts_eager",
    "counts_by_device",
    "counts_compiled",
    "counts_graphs",
    "names_triton",
    "counts_fp8",
    "step_times",
    "ceiling_below_peak",
    "ledger_closes",
    "hardware_counters",
]


@pytest.fixture(scope="module")
def selftest():
    spec = importlib.util.spec_from_file_location("mfu_selftest", ROOT / "python" / "mfu" / "_selftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def whole(tmp_path, status, **environment):
    made = subprocess.run(
        [MFU, "doctor", "--selftest", "--output", tmp_path / "selftest.json", "--json"],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "MFU_PYTHON": sys.executable, **environment},
    )
    assert made.returncode in (0, 1), made.stdout + made.stderr
    report = json.loads(made.stdout)
    assert made.returncode == status, [check for check in report["checks"] if check["verdict"] == "failed"]
    assert report == json.loads((tmp_path / "selftest.json").read_text()) and report["schema"] == "mfu.selftest/1"
    return report, {check["name"]: check for check in report["checks"]}


def test_everything_that_needs_no_gpu_passes_here(tmp_path):
    report, checks = whole(tmp_path, 0)
    assert list(checks) == NAMES and report["versions"]["torch"] and report["device"]
    for name in ("counts_eager", "counts_by_device", "step_times", "ceiling_below_peak", "ledger_closes"):
        assert checks[name]["verdict"] == "passed", checks[name]
    for check in report["checks"]:
        assert check["verdict"] != "failed" and check["why"], check


def test_a_device_that_runs_late_passes_with_its_own_clock(late, tmp_path):
    report, checks = whole(
        tmp_path, 0, MFU_SELFTEST_IMPORT="late", PYTHONPATH=str(ROOT / "tests" / "device"), LATE_NAMES=H100
    )
    assert report["device"] == H100
    for name in (
        "counts_eager",
        "counts_by_device",
        "step_times",
        "ceiling_below_peak",
        "counts_eager@late:1",
        "counts_by_device@late:1",
    ):
        assert checks[name]["verdict"] == "passed", checks[name]


def test_a_subject_that_counts_wrong_fails_it(tmp_path):
    """A program that replaces mfu and adds one FLOP to its answers."""
    broken = tmp_path / "mfu"
    broken.write_text(f"""#!{sys.executable}
import json, subprocess, sys
status = subprocess.run([{MFU!r}, *sys.argv[1:]]).returncode
if "--json-file" in sys.argv:
    path = sys.argv[sys.argv.index("--json-file") + 1]
    report = json.load(open(path))
    report["model_flop"] += 1
    json.dump(report, open(path, "w"))
sys.exit(status)
""")
    broken.chmod(0o755)
    _, checks = whole(tmp_path, 1, MFU_SELFTEST_SUBJECT=str(broken))
    assert (
        checks["counts_eager"]["verdict"] == "failed"
        and checks["counts_eager"]["seen"] == checks["counts_eager"]["expected"] + 1
    )


class Machine:
    """A subject made by hand: what mfu says of every program, and what the program itself knows."""

    device = "cuda:0"

    def __init__(self, report=None, facts=None, said=None):
        self.report = {"model_flop": 100, "timing": "device", "step_ns": {"median": 50e6}, "notes": [], "steps": 8,
                       "flop_by_dtype": {"fp8": 100, "bf16": 0},
                       "by_device": [{"index": 0, "model_flop": 100, "peak_flop_per_s": 1e12}],
                       "coverage": {"uncounted": [{"operator": "triton::kernel", "calls": 3}]}, **(report or {})}
        self.facts = {
            "model_flop": 100,
            "kernel": "kernel",
            "calls": 3,
            "steps": 8,
            "step_ns": 50e6,
            "shortest_step_ns": 45e6,
            "longest_step_ns": 60e6,
            "flop_per_s": 0.9e12,
            "trace": "t",
            **(facts or {}),
        }
        self.said = said or {
            "ranks": [{"ledger": [{"duration_ns": 60}, {"duration_ns": 40}], "window": {"duration_ns": 100}}]
        }

    def run(self, name):
        return self.report, self.facts

    def call(self, *words):
        return 0, json.dumps(self.said), ""


BROKEN = {
    "counts_eager": {"report": {"model_flop": 99}}, "counts_compiled": {"report": {"model_flop": 200}},
    "counts_graphs": {"report": {"model_flop": 20}}, "counts_fp8": {"report": {"flop_by_dtype": {"fp8": 50}}},
    "counts_by_device": {"report": {"by_device": [{"index": None, "model_flop": 100, "peak_flop_per_s": 1e12}]}},
    "names_triton": {"report": {"coverage": {"uncounted": []}}}, "step_times": {"report": {"step_ns": {"median": 5e6}}},
    "ceiling_below_peak": {"facts": {"flop_per_s": 2e12}},
    "ledger_closes": {"said": {"ranks": [{"ledger": [{"duration_ns": 60}], "window": {"duration_ns": 100}}]}},
}


# Those that see the same number of a report that was made by hand.
COUNTS = {"counts_eager", "counts_compiled", "counts_graphs"}
SAME = {name: COUNTS for name in COUNTS}


@pytest.mark.parametrize("name", BROKEN)
def test_a_check_passes_on_what_is_right_and_fails_on_what_is_broken(selftest, name):
    check = dict(selftest.CHECKS)[name]
    assert selftest.checked(name, check, Machine())["verdict"] == "passed"
    failed = selftest.checked(name, check, Machine(**BROKEN[name]))
    assert failed["verdict"] == "failed" and failed["seen"] != failed["expected"]
    assert selftest.NEXT[name] in failed["why"] and "attach" in failed["why"]
    for other in set(BROKEN) - {name} - SAME.get(name, set()):
        assert selftest.checked(other, dict(selftest.CHECKS)[other], Machine(**BROKEN[name]))["verdict"] == "passed"


def test_every_check_says_what_to_do_where_it_failed(selftest):
    assert list(selftest.NEXT) == [name for name, _ in selftest.CHECKS] == NAMES


def test_fp8_that_is_counted_as_another_type_fails(selftest):
    machine = Machine(report={"flop_by_dtype": {"bf16": 100}})
    assert selftest.checked("counts_fp8", selftest.check_fp8, machine)["verdict"] == "failed"


def test_a_step_whose_end_is_missed_fails(tmp_path):
    """The glue in a copy of the package overhears every second step of an optimizer. Two steps take twice as long,
    which a busy machine's times would hide: the steps are counted."""
    package = tmp_path / "python" / "mfu"
    shutil.copytree(ROOT / "python" / "mfu", package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "build").symlink_to(ROOT / "build")  # where the glue finds its library
    glue = package / "_observer" / "boundaries.py"
    text = glue.read_text()
    assert text.count("own = type(optimizer)") == 1
    missed = "module.missed = not getattr(module, 'missed', False)\n        if module.missed:\n            return\n"
    glue.write_text(text.replace("own = type(optimizer)", f"{missed}        own = type(optimizer)"))
    _, checks = whole(tmp_path, 1, MFU_PYTHON_DIR=str(tmp_path / "python"))
    failed = [each for each in checks.values() if each["verdict"] == "failed"]
    assert [each["name"] for each in failed] == ["step_times"]
    assert failed[0]["seen"] < failed[0]["expected"] == 8 and "--step-marker" in failed[0]["why"]


def test_step_times_by_the_hosts_clock_alone_fail_on_a_device(selftest):
    assert (
        selftest.checked("step_times", selftest.check_steps, Machine(report={"timing": "host"}))["verdict"] == "failed"
    )


@pytest.mark.parametrize("seen, verdict", ((100, "passed"), (80, "failed"), (200, "failed")))
def test_counters_are_held_against_the_flops_by_hand(selftest, monkeypatch, seen, verdict):
    machine = Machine()
    machine.device = "cpu"

    def call(*words):
        Path(words[-1]).write_text(json.dumps({"model_flop": 100}))
        return 0, json.dumps({"flop": seen, "counted_fraction": 1}), ""

    machine.call = call
    assert selftest.checked("hardware_counters", selftest.check_counters, machine)["verdict"] == verdict


def test_a_check_that_breaks_is_one_that_failed(selftest):
    assert selftest.checked("step_times", lambda machine: 1 / 0, Machine())["verdict"] == "failed"
