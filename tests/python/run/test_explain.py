"""`mfu run --explain` says why a program is slow, from the same run and with nothing edited. planted.py has the
programs."""

import json
import os
import subprocess
import sys

import pytest
from expected import HERE, MFU

BUSY = 0.05  # share of a step's time in which other processes had the cores
NOT_QUIET = "a quiet machine is not at hand: other processes had the cores in each of four runs"
PLANTED = str(HERE / "planted.py") if not isinstance(HERE, str) else HERE + "/planted.py"


def run(tmp_path, name, *options, command=None, steps=12):
    words = [MFU, "run", "--explain", "--dir", str(tmp_path / "run"), *options, "--", *(command or [sys.executable])]
    # If OMP_NUM_THREADS were set for the whole machine, no program would use all cores, which is a finding too.
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [*words, PLANTED, name, str(steps)], capture_output=True, text=True, timeout=300, env=environment
    )
    report = json.loads((tmp_path / "run" / "summary.json").read_text())
    if report["explain"]:
        check(tmp_path / "run", report)
    return done, report


def check(folder, report):
    """For every program, the ledger adds up, and its FLOPs are those of exactly the steps that were profiled."""
    if not report["explain"]["traces"]:  # the program left inside the window
        return
    explained = json.loads((folder / "explain.json").read_text())
    for rank in explained["ranks"]:
        assert sum(line["duration_ns"] for line in rank["ledger"]) == rank["window"]["duration_ns"]
    exported = subprocess.run([MFU, "export", str(folder), "--jsonl"], capture_output=True, text=True, timeout=60)
    steps = [json.loads(line) for line in exported.stdout.splitlines()]
    # A program without a matmul has no FLOPs in its steps.
    profiled = [step.get("model_flop", 0) for step in steps if step["step"] in report["explain"]["profiled_steps"]]
    if len(explained["ranks"]) == report["ranks"] and report["model_flop"]:
        assert sum(rank["model_flop"] for rank in explained["ranks"]) == sum(profiled), folder


def codes(report):
    """Leaves out what other processes on this machine caused."""
    return [each["code"] for each in report["findings"] if each["code"] != "host_preempted"]


# The finding and the fix that each planted program must get first. tests/python/test_explain_causes.py has the causes
# that a CPU cannot show: a faster data type, kernel launches, copies.
TABLE = [
    ("slow_loader", "data_loading", "data_loading", "start_workers"),
    ("few_workers", "data_loading", "data_loading", "more_workers"),
    ("preprocessing", "preprocessing", "cpu_preprocessing", "preprocess_offline"),
    ("busy_workers", "preprocessing", "cpu_preprocessing", "preprocess_once"),
    ("one_worker", "preprocessing", "cpu_preprocessing", "preprocess_once"),
    ("branches", "synchronization", "synchronization", "read_values_less"),
    ("tiny", "kernel_launch", "kernel_launch", "compile_model larger_batch"),
    ("thin", "matmul_below_peak", "implementation", "larger_matmuls"),
    ("chains", "other_kernels", "implementation", "compile_fuses"),
    ("recompiling", "compiles_again", "implementation", "compile_dynamic"),
    ("double", "precision", "precision", "use_fp32"),
    ("one_thread", "threads", "threads", "set_threads"),
    ("optimizer", "optimizer", "optimizer", "fused_optimizer"),
    ("by_hand", "optimizer", "optimizer", "own_optimizer"),
    ("rows", "kernel_launch", "kernel_launch", "whole_tensor"),
    ("checkpointing", "recomputation", "recomputation", "checkpoint_less"),
    ("sleeping", "host_sleeps", "host", "look_where_it_sleeps"),
    ("items", "synchronization", "synchronization", "read_values_less"),
]


@pytest.mark.parametrize("name, code, cause, fixes", TABLE)
def test_the_reason_that_was_planted_is_found(tmp_path, name, code, cause, fixes):
    """Other processes stretch computing but not waiting, so a run that met them is tried again."""
    busy = []
    for attempt in range(4):
        done, report = run(tmp_path / str(attempt), name)
        assert done.returncode == 0, done.stderr
        if codes(report)[:1] == [code]:
            first = next(each for each in report["findings"] if each["code"] == code)
            assert first["cause"] == cause and first["gain_ceiling_ns"] > 0
            if set(fixes.split()) <= set(first["fixes"]):  # whether a core is free for a worker depends on others too
                return
        busy.append(report["host"]["preempted_fraction"] > BUSY)
    if all(busy) and code not in codes(report):
        pytest.skip(NOT_QUIET)
    assert all(busy), report["findings"]


@pytest.mark.parametrize("name", ["optimal", "accumulation", "compiled", "closure"])
def test_no_advice_where_nothing_would_help(tmp_path, name):
    busy = []
    for attempt in range(4):
        done, report = run(tmp_path / str(attempt), name)
        assert done.returncode == 0, done.stderr
        if codes(report) == []:
            return
        busy.append(report["host"]["preempted_fraction"] > BUSY)
    if all(busy):
        pytest.skip(NOT_QUIET)
    raise AssertionError(report["findings"])


@pytest.mark.parametrize("name", ["checkpointing", "accumulation", "optimizer"])
def test_the_ledgers_flops_are_the_observers_and_its_lines_add_up(tmp_path, name):
    _, report = run(tmp_path, name)
    explained = json.loads((tmp_path / "run" / "explain.json").read_text())
    rank = explained["ranks"][0]
    # All steps of these programs are alike, so three of twelve are a quarter.
    assert 4 * rank["model_flop"] == report["model_flop"] and 4 * rank["hardware_flop"] == report["hardware_flop"]
    assert sum(line["duration_ns"] for line in rank["ledger"]) == rank["window"]["duration_ns"]
    assert rank["window"]["steps"] == 3 and rank["cpu"]["threads"] >= 1
    assert report["explain"]["profiled_steps"] == list(
        range(report["explain"]["profiled_steps"][0], report["explain"]["profiled_steps"][0] + 3)
    )
    assert (tmp_path / "run" / "trace-rank0.json.gz").is_file() and (tmp_path / "run" / "report.html").is_file()
    assert not (tmp_path / "run" / "trace-rank0.json").exists()


def test_profiled_steps_are_in_no_rate(tmp_path):
    _, report = run(tmp_path, "tiny", "--explain-after", "3", steps=9)
    left_out = len(report["explain"]["profiled_steps"]) + 1
    assert left_out == 4 and any("no rate, share or statistic" in note for note in report["notes"])
    # At least one step is warm-up, and none of the rest can be a profiled one.
    assert report["steps"] == 9


def test_a_closure_inside_the_optimizers_step_is_not_the_optimizer(tmp_path):
    _, report = run(tmp_path, "closure")
    assert report["optimizer_fraction"] < 0.05 and "optimizer" not in codes(report)


def test_a_program_with_a_profiler_of_its_own_is_left_alone(tmp_path):
    done, report = run(tmp_path, "own_profiler")
    assert done.returncode == 0 and done.stdout == "True\n"
    assert any("torch's profiler itself" in note for note in report["notes"]) and report["explain"] is None


def test_a_profiler_that_another_thread_begins_inside_the_window_is_left_alone(tmp_path):
    done, report = run(tmp_path, "profiler_beside", "--explain-after", "3")
    assert done.returncode == 0 and done.stdout == "[True]\n", done.stderr
    assert any("torch's profiler itself" in note for note in report["notes"]) and report["explain"]["traces"] == []


def test_children_that_are_forked_in_the_window_and_after_it_exit(tmp_path):
    done, report = run(tmp_path, "forks", "--explain-after", "3")
    assert done.returncode == 0 and done.stdout.split() == ["7", "7"], done.stderr


def test_a_program_that_leaves_inside_the_window_says_so(tmp_path):
    # Otherwise the window begins when two steps in a row took equally long. On a busy machine that may be after the
    # program's end.
    done, report = run(tmp_path, "leaves", "--explain-after", "3")
    assert done.returncode == 3 and any("ended inside the window" in note for note in report["notes"])


def test_a_step_that_an_error_cuts_is_not_explained(tmp_path):
    done, report = run(tmp_path, "fails", "--explain-after", "3")  # run() compares the FLOPs
    assert done.returncode == 1 and "planted" in done.stderr
    assert report["explain"]["profiled_steps"] == [3, 4] and any("2 of 3 steps" in note for note in report["notes"])
    explained = json.loads((tmp_path / "run" / "explain.json").read_text())
    assert explained["ranks"][0]["window"]["steps"] == 2


def test_a_program_that_ends_before_the_window_says_so(tmp_path):
    done, report = run(tmp_path, "tiny", steps=2)
    assert done.returncode == 0 and any("before the steps to explain began" in note for note in report["notes"])


def test_a_window_that_the_end_cuts_is_explained_as_far_as_it_goes(tmp_path):
    _, report = run(tmp_path, "tiny", "--explain=4", "--explain-after", "2", steps=4)
    assert report["explain"]["profiled_steps"] == [2, 3] and any("2 of 4 steps" in note for note in report["notes"])


def test_the_profilers_own_words_stay_off_the_programs_output(tmp_path):
    done, _ = run(tmp_path, "tiny")
    assert done.stdout == "" and "profiler_start" not in done.stderr


@pytest.mark.usefixtures("torchrun")
def test_two_ranks_are_explained_together_and_the_slow_one_is_named(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29547"]
    for attempt in range(3):  # with other processes on two cores, either rank may be held up
        done, report = run(tmp_path / str(attempt), "ranks", command=torchrun)
        assert done.returncode == 0, done.stderr
        assert len(report["explain"]["traces"]) == 2
        if report["slowest_rank"] == 1 and codes(report)[0] == "straggler":
            return
    raise AssertionError(report["findings"])


@pytest.mark.usefixtures("torchrun")
def test_gradients_that_take_longer_to_send_than_to_compute_are_communication(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29549"]
    for attempt in range(4):  # other programs on two cores may disturb either rank
        done, report = run(tmp_path / str(attempt), "gradients", command=torchrun)
        assert done.returncode == 0, done.stderr
        if codes(report)[0] == "communication":
            return
    raise AssertionError(report["findings"])


@pytest.mark.usefixtures("torchrun")
def test_only_the_named_ranks_are_profiled(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29548"]
    _, report = run(tmp_path, "ranks", "--explain-ranks", "1", command=torchrun)
    assert [path.rsplit("/", 1)[1] for path in report["explain"]["traces"]] == ["trace-rank1.json.gz"]
