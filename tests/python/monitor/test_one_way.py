"""There is one way through the monitor: arguments come from one table, settings are handed over unchanged, and the
thread that logs asks the device."""

import argparse
import inspect
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import warnings

import numpy
import pytest

import mfu
from mfu import _core, _masks

torch = pytest.importorskip("torch", reason="torch is not at hand")


def opened(folder, **more):
    return mfu.Monitor(output_dir=folder, mode="estimate", wandb=False, **more)


def test_the_signature_that_people_read_is_the_table():
    table = [name for name, _ in _core.step_arguments()]
    written = list(inspect.signature(mfu.Monitor.log_step).parameters.values())[1:]
    assert [each.name for each in written] == table
    by_position = [each.name for each in written if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert by_position == table[: len(by_position)] and by_position[-1] == "skip_wandb"
    with opened(None) as monitor:
        native = inspect.signature(monitor.log_step)
        assert [(each.name, each.kind, each.default) for each in native.parameters.values()] == [
            (each.name, each.kind, each.default) for each in written
        ]


VALUES = {
    "step": 7,
    "epoch": 1.5,
    "loss": 2.5,
    "grad_norm": 0.5,
    "learning_rate": 0.25,
    "duration_s": 0.125,
    "batch": 3,
    "seq": 5,
    "samples": 9,
    "images": 2,
    "counted_flop": 10**9,
    "padded_to": 8,
}


def test_calls_that_name_other_arguments_or_take_more_by_position_are_not_mixed_up(tmp_path, lines, small):
    """The places of a call's keywords are remembered for the next call."""
    with opened(tmp_path, model=small, peak=1e12) as monitor:
        for step in range(0, 60, 6):
            monitor.log_step(step, loss=1.0, epoch=2.0, duration_s=1.0)
            monitor.log_step(step + 1, 3.0, loss=4.0, duration_s=1.0)
            monitor.log_step(step + 2, learning_rate=5.0, loss=6.0, duration_s=1.0)
            monitor.log_step(step=step + 3, **{"lo" + "ss": 7.0, "epo" + "ch": 8.0, "duration_s": 1.0})
            monitor.log_step(step + 4, 9.0, 10.0, step_seconds=1.0)
            for _ in range(2):  # gives a name twice; in the second round the names are remembered
                monitor.log_step(step + 5, 11.0, epoch=12.0, duration_s=1.0)
    names = ("epoch", "loss", "learning_rate")
    found = {(at % 6, *(line.get(name) for name in names)) for at, line in seen(lines, tmp_path)}
    expected = [(2.0, 1.0, None), (3.0, 4.0, None), (None, 6.0, 5.0), (8.0, 7.0, None), (9.0, 10.0, None)]
    assert {each for each in found if each[0] != 5} == {(at, *values) for at, values in enumerate(expected)}


def seen(lines, folder):
    return [(line["step"], line) for line in lines(folder / "training_log.json")]


@pytest.mark.parametrize("odd", [name for name in VALUES])
def test_each_argument_goes_the_fast_and_the_slow_way_alike(tmp_path, lines, small, odd):
    """Numbers of numpy are not plain Python numbers."""
    with opened(tmp_path, model=small, peak=1e12) as monitor:
        monitor.log_step(**VALUES)
        slow = dict(VALUES, step=8)
        kind = numpy.float64 if isinstance(slow[odd], float) else numpy.int64
        slow[odd] = kind(slow[odd])
        monitor.log_step(**slow)
    fast, slow = lines(tmp_path / "training_log.json")
    for line in (fast, slow):
        del line["step"], line["time_unix_s"]
    assert fast == slow and fast["perf/step_time"] == 0.125 and fast["perf/tokens_per_second"] == 120


def test_numbers_that_no_int_of_32_bits_holds_are_taken_on_the_slow_way_too(tmp_path, lines, small):
    need = mfu.flops(small, batch=2**11, seq=2**12).model_flop
    with mfu.Monitor(output_dir=tmp_path, model=small, wandb=False, flops_profile_freq=0) as monitor:
        monitor.log_step(1, loss=numpy.float32(1), tokens=2**23, squares=2**35, batch=2**11, duration_s=1.0)
        monitor.log_step(2, loss=numpy.float32(1), tokens=8, counted_flop=2**70, duration_s=1.0)
    first, second = lines(tmp_path / "training_log.json")
    assert first["perf/tokens_per_second"] == 2**23 and first["model_flop"] == need and second["model_flop"] == 2**70


def test_the_older_spelling_of_the_steps_time_is_the_same(tmp_path, lines):
    with opened(tmp_path) as monitor:
        for step, loss in enumerate((1.0, numpy.float32(1))):
            monitor.log_step(2 * step, loss=loss, tokens=1, step_seconds=0.5)
            monitor.log_step(2 * step + 1, loss=loss, tokens=1, duration_s=0.5)
        with monitor.step(10, step_seconds=0.5, tokens=1):
            pass
    assert [line["perf/step_time"] for line in lines(tmp_path / "training_log.json")] == [0.5] * 5


class Asked:
    """A number that a device gives later. It remembers which thread asked for it."""

    unread = False

    def __init__(self, value):
        self.number, self.there, self.threads = value, False, []

    def ready(self):
        self.threads.append(threading.get_ident())
        return self.there

    def value(self):
        self.threads.append(threading.get_ident())
        return self.number


def test_a_device_is_asked_by_the_thread_that_logs_and_by_no_other(tmp_path, lines, monkeypatch):
    number = _masks.number
    monkeypatch.setattr(_masks, "number", lambda value: value if isinstance(value, Asked) else number(value))
    late = [Asked(float(step)) for step in range(3)]
    with opened(tmp_path) as monitor:
        for step, each in enumerate(late):
            monitor.log_step(step, loss=each, tokens=1)
        time.sleep(0.6)  # each of the monitor's threads looks twice in this time
        assert [len(each.threads) for each in late] == [2, 0, 0]  # the two calls after the first one asked for it
        late[0].there = True
        monitor.log_step(3, loss=1.5, tokens=1)  # a plain step asks too
        late[1].there = late[2].there = True
        monitor.log_step(4, loss=numpy.float32(2.5), tokens=1)
        assert [len(each.threads) for each in late] == [4, 3, 2]
        assert {thread for each in late for thread in each.threads} == {threading.get_ident()}
    assert [line["loss"] for line in lines(tmp_path / "training_log.json")] == [0, 1, 2, 1.5, 2.5]


def test_what_asking_raises_is_left_out_and_what_a_signal_handler_raises_is_not(tmp_path, lines, monkeypatch):
    number = _masks.number
    monkeypatch.setattr(_masks, "number", lambda value: value if isinstance(value, Asked) else number(value))
    broken = Asked(1.0)
    broken.ready = lambda: 1 / 0
    interrupted = Asked(2.0)

    def interrupt():
        del interrupted.ready
        interrupted.there = True
        raise KeyboardInterrupt

    interrupted.ready = interrupt
    with pytest.warns(RuntimeWarning, match="loss: division by zero"):
        with opened(tmp_path) as monitor:
            monitor.log_step(0, loss=broken, tokens=1)
            monitor.log_step(1, loss=interrupted, tokens=1)
            with pytest.raises(KeyboardInterrupt):
                monitor.log_step(2, loss=1.5, tokens=1)
            monitor.log_step(3, loss=2.5, tokens=1)
    assert [(line["step"], line.get("loss")) for line in lines(tmp_path / "training_log.json")] == [
        (0, None),
        (1, 2),
        (3, 2.5),
    ]


def test_more_than_256_steps_that_wait_give_up_the_oldest(tmp_path, monkeypatch):
    number = _masks.number
    monkeypatch.setattr(_masks, "number", lambda value: value if isinstance(value, Asked) else number(value))
    with pytest.warns(RuntimeWarning, match="more than 256 steps behind"):
        with opened(tmp_path, queue_capacity=4096) as monitor:
            late = [Asked(float(step)) for step in range(300)]
            for step, each in enumerate(late):
                monitor.log_step(step, loss=each, tokens=1)
            for each in late:
                each.there = True
    logged = [json.loads(line) for line in (tmp_path / "training_log.json").read_text().splitlines()]
    assert [line.get("loss") for line in logged] == [None] * 44 + [float(step) for step in range(44, 300)]


class Graph:
    """The part of torch.cuda that matters for a captured graph. It fails if it is asked what no capture allows."""

    def __init__(self):
        self.capturing, self.queries = False, 0

    def is_current_stream_capturing(self):
        return self.capturing

    def current_stream(self, device=None):
        return None

    def Event(self):
        return self

    def record(self, stream=None):
        assert not self.capturing

    def query(self):
        assert not self.capturing
        self.queries += 1
        return True


def test_nothing_is_asked_while_a_cuda_graph_is_captured(tmp_path, lines, monkeypatch):
    graph = Graph()
    monkeypatch.setattr(torch, "cuda", graph)
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *given, pin_memory=False, **named: empty(*given, **named))

    class OnDevice:
        device = type("Device", (), {"type": "cuda"})()
        shape, dtype, requires_grad = torch.Size([]), torch.float32, False

        def detach(self):
            return self

        def numel(self):
            return 1

        def to(self, *given, **named):
            return torch.tensor(3.0)

    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, other, non_blocking=False: self.fill_(3.0))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with opened(tmp_path) as monitor:
            monitor.log_step(0, loss=OnDevice(), tokens=1)
            graph.capturing = True
            monitor.log_step(1, loss=1.5, tokens=1)
            monitor.log_step(2, loss=OnDevice(), tokens=1)
            assert graph.queries == 0
            graph.capturing = False
            monitor.log_step(3, loss=1.5, tokens=1)
            assert graph.queries == 1
    assert [(line["step"], line.get("loss")) for line in lines(tmp_path / "training_log.json")] == [
        (0, 3),
        (1, 1.5),
        (2, None),
        (3, 1.5),
    ]
    assert any("being captured" in str(each.message) for each in said)


def test_a_real_device_that_is_no_cpu_goes_the_same_way(tmp_path, lines):
    """Uses a real device if torch has one here. Meta tensors hold no numbers; they are left out with a message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with opened(tmp_path) as monitor:
            monitor.log_step(0, loss=torch.empty((), device="meta"), tokens=1)
    assert [line.get("loss") for line in lines(tmp_path / "training_log.json")] == [None]


class Fields:
    """Settings as dataclasses and argparse hold them."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    "config",
    [
        {
            "freq": {"local_save_freq": 3},
            "dtype": "bf16",
            "peak": 312e12,
            "skip_wandb": True,
            "devices": numpy.int64(2),
        },
        {
            "monitor": {"freq": {"local_save_freq": 3}, "dtype": "bf16"},
            "monitoring": {"peak": 312e12, "skip_wandb": True, "devices": 2},
            "other": {"x": [1]},
        },
        Fields(
            freq={"local_save_freq": 3},
            dtype="bf16",
            peak=numpy.float64(312e12),
            skip_wandb=True,
            devices=2,
            output_dir=None,
        ),
        argparse.Namespace(freq=Fields, local_save_freq=3, dtype="bf16", peak=312e12, skip_wandb=True, devices=2),
        "train.yaml",
        pathlib.Path("train.yaml"),
        os.fsencode("train.yaml") and pathlib.PurePath("train.yaml"),
    ],
)
def test_settings_are_taken_as_they_are(tmp_path, monkeypatch, config):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("train.yaml").write_text(
        "monitoring: {freq: {local_save_freq: 3}, dtype: bf16, peak: 312e12, skip_wandb: true, devices: 2}\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mfu.Monitor(config, output_dir=tmp_path / "out") as monitor:
            found = monitor.settings
    assert (found.get("freq.local_save_freq") or found["local_save_freq"]) == "3"
    assert (found["dtype"], float(found["peak"]), found["skip_wandb"].lower(), found["devices"]) == (
        "bf16",
        312e12,
        "true",
        "2",
    )
    assert found["output_dir"] == str(tmp_path / "out")


def test_wrong_settings_are_said_and_the_rest_is_used(tmp_path):
    cases = [
        ({"local_save_freq": "3"}, "whole number"),
        ({"sinks": {"csv": [1, 2]}}, "takes one value"),
        ({"dtyp": "bf16"}, "did you mean 'monitoring.dtype'"),
        (5, "a YAML file or a dict was expected"),
        (tmp_path / "nowhere.yaml", "nowhere.yaml"),
        ({"freq": 5}, "is a section"),
        ("/dev/zero", "larger than 1 MB"),
        (str(tmp_path), "is a folder"),
    ]
    for config, part in cases:
        with pytest.warns(RuntimeWarning, match=part):
            with mfu.Monitor(config, output_dir=tmp_path / "out", nonsense=1, peak=1e12, wandb=False) as monitor:
                assert monitor.settings["peak"] == "1000000000000.0"
        assert any("nonsense" in message for message in monitor.warnings)


def test_keywords_win_over_another_spelling_in_the_file(tmp_path):
    (tmp_path / "train.yaml").write_text(
        "monitor: {performance_monitoring: {measure_flops_frequency: 7}, sinks: {csv: theirs.csv}}\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with mfu.Monitor(
            tmp_path / "train.yaml",
            output_dir=tmp_path,
            measure_flops_frequency=3,
            csv=tmp_path / "mine.csv",
            mode="profiler",
            wandb=False,
        ) as monitor:
            assert monitor.measurement_due(6) and not monitor.measurement_due(7)
            monitor.log_step(1, tokens=1)
    assert (tmp_path / "mine.csv").exists()


def test_ranks_write_files_of_their_own_and_listen_where_they_are_told(tmp_path):
    program = """import sys, mfu
folder = sys.argv[1]
with mfu.Monitor(output_dir=folder, csv=folder + "/table.csv", tensorboard=folder + "/board", prometheus=sys.argv[2],
                 console=True, wandb=False, rank=2) as monitor:
    monitor.log_step(1, loss=1.0, tokens=1)
"""
    for where in (str(tmp_path / "mfu.prom"), "127.0.0.1:29464"):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, str(tmp_path), where],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
        )
        assert (done.returncode, done.stderr) == (0, "")
    found = {
        path.relative_to(tmp_path).as_posix()
        for path in tmp_path.rglob("*")
        if path.is_file() and "mfu-run" not in path.parts
    }
    assert {name for name in found if not name.startswith("board/")} == {
        "training_log.rank2.json",
        "table.rank2.csv",
        "mfu.rank2.prom",
    }
    assert {name.split("/")[1] for name in found if name.startswith("board/")} == {"rank2"}
