"""`mfu run` of programs on the test device: FLOPs by the device they ran on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import FORWARD, HEAD, HEADS, PAIRS, QUERIES, STEPS, WIDTH

HERE = Path(__file__).resolve().parent
MFU = os.environ.get("MFU_BINARY") or str(HERE.parents[2] / "build" / "release" / "mfu")
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
PEAKS = {H100: 66.9e12, A100: 19.5e12}


@pytest.fixture
def run(late, tmp_path):
    def ran(name, *options, names=f"{H100},{A100}", **environment):
        made = subprocess.run(
            [
                MFU,
                "run",
                "--json-file",
                tmp_path / "run.json",
                "--dir",
                tmp_path / "run",
                *options,
                "--",
                sys.executable,
                HERE / "programs.py",
                name,
            ],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "LATE_NAMES": names, **environment},
        )
        assert made.returncode == 0, made.stderr
        report = json.loads((tmp_path / "run.json").read_text())
        report["text"] = made.stderr + made.stdout
        return report

    return ran


def by_index(report):
    return {each["index"]: each for each in report["by_device"]}


def test_a_run_on_one_device_is_held_against_its_peak(run):
    report = run("one")
    devices = by_index(report)
    # The first layer's input needs no gradient, which makes 2 products. The second layer's does, which makes 3.
    assert devices[0]["model_flop"] == report["model_flop"] == STEPS * 5 * FORWARD
    assert devices[0]["device"] == report["device"] == H100 and devices[0]["identity"] == "late-0000-0000"
    assert devices[0]["peak_flop_per_s"] == PEAKS[H100] and report["devices"] == 1
    assert devices[0]["mfu"] == pytest.approx(report["mfu"])


def test_two_devices_of_one_process_have_flops_and_peaks_of_their_own(run):
    report = run("two")
    devices = by_index(report)
    assert devices[0]["model_flop"] == STEPS * 2 * FORWARD and devices[1]["model_flop"] == STEPS * 3 * FORWARD
    assert [devices[i]["peak_flop_per_s"] for i in (0, 1)] == [PEAKS[H100], PEAKS[A100]]
    assert report["devices"] == 2 and report["mfu"] == pytest.approx(
        (devices[0]["mfu"] + devices[1]["mfu"]) / 2, rel=1e-6
    )
    assert f"{A100} (1)" in report["text"]


def test_an_offloaded_optimizer_leaves_the_run_on_the_accelerator(run):
    report = run("offloaded")
    devices = by_index(report)
    assert devices[0]["model_flop"] == STEPS * 2 * FORWARD and devices[None]["model_flop"] == STEPS * 2 * WIDTH**3
    assert report["device"] == H100 and report["peak_flop_per_s"] == PEAKS[H100]
    assert report["mfu"] == pytest.approx(devices[0]["mfu"]) and devices[None]["peak_flop_per_s"] < PEAKS[A100]


def test_a_program_without_an_optimizer_is_held_against_the_device_it_ran_on(run):
    report = run("inference")
    assert report["device"] == H100 and by_index(report)[0]["model_flop"] == STEPS * FORWARD
    assert None not in by_index(report)


def test_time_in_which_neither_the_host_nor_the_device_works_is_idle(run):
    report = run("pausing")
    prefill, decode = report["phases"]
    assert (prefill["phase"], decode["phase"]) == ("prefill", "decode") and decode["passes"] == 14
    assert report["idle_ns"] > 0.3e9
    assert decode["time_ns"] > 0.5e9  # the second in which only the device worked


def test_products_of_a_loaders_processes_are_the_hosts(run):
    report = run("loader_workers")
    devices = by_index(report)
    assert devices[0]["model_flop"] == STEPS * 2 * FORWARD and devices[None]["model_flop"] == STEPS * FORWARD
    assert report["device"] == H100 and report["peak_flop_per_s"] == PEAKS[H100] and report["devices"] == 1


def test_a_product_past_the_dispatcher_on_a_device_is_a_contradiction_and_nobody_waits_for_the_verdict(run):
    report = run("hidden_product")
    assert len(report["contradictions"]) == 1 and "Hidden" in report["contradictions"][0]
    assert report["coverage"]["complete"] is False


def test_an_unknown_device_has_no_mfu_and_says_what_to_give(run):
    report = run("one", names="Unheard Of 9000")
    assert report["mfu"] is None and report["device"] == "Unheard Of 9000"
    assert any("--peak" in note for note in report["notes"])
    given = run("one", "--peak", "1e12", names="Unheard Of 9000")
    assert given["mfu"] is not None and by_index(given)[0]["peak_flop_per_s"] == 1e12


def test_a_devices_first_profiled_step_is_given_away_and_in_no_rate(run, tmp_path):
    """Six steps: one ends, one is recorded and thrown away (its records can be wrong), two are explained, one pays for
    the end."""
    report = run("one", "--explain=2", "--explain-after", "1")
    assert report["explain"]["profiled_steps"] == [2, 3]
    assert any("explaining took 2 steps and slowed 2 more" in note for note in report["notes"]), report["notes"]
    explained = json.loads((tmp_path / "run" / "explain.json").read_text())
    rank = explained["ranks"][0]
    assert rank["window"]["steps"] == 2 and rank["model_flop"] == 2 * 5 * FORWARD
    assert sum(line["duration_ns"] for line in rank["ledger"]) == rank["window"]["duration_ns"]


@pytest.mark.parametrize("program", ["masked", "masked_anew"])
def test_a_mask_on_the_device_counts_its_true_area(run, program):
    report = run(program)
    # Attention needs 4 FLOPs a pair forward and 8 backward; a projection of 32 rows two products.
    attention = STEPS * 12 * HEADS * HEAD * PAIRS
    projections = STEPS * 2 * (2 * HEADS * QUERIES * HEAD * HEAD)
    assert report["model_flop"] == attention + projections
    assert sum(phase["model_flop"] for phase in report["phases"]) == report["model_flop"]
    assert [phase["phase"] for phase in report["phases"] if phase["model_flop"]] == ["train"]
    assert not any("rectangle" in note for note in report["notes"])
