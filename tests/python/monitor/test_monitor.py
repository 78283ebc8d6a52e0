"""mfu.Monitor: every way to report a step gives the same numbers, and no mistake in a call reaches the loop."""

import gc
import json
import os
import subprocess
import sys
import threading
import time
import warnings

import pytest

import mfu

numpy = pytest.importorskip("numpy", reason="numpy is not at hand")


def opened(folder, small, **more):
    return mfu.Monitor(
        model=small, peak=1e15, output_dir=folder, mode=more.pop("mode", "estimate"), wandb=False, **more
    )


def test_each_way_to_give_lengths_is_the_same_step(tmp_path, small, lines):
    rows = [[1] * 30 + [0] * 2, [1] * 7 + [0] * 25, [1] * 32]
    ways = [
        {"lengths": [30, 7, 32], "padded_to": 32},
        {"attention_mask": rows},
        {"batch": 3, "tokens": 69, "squares": 30 * 30 + 7 * 7 + 32 * 32},
    ]
    ways += [
        {"attention_mask": numpy.array(rows, dtype=kind)}
        for kind in ("int64", "int32", "uint8", "bool", "float32", "float64", "int16")
    ]
    ways.append({"attention_mask": numpy.asfortranarray(numpy.array(rows))})
    ways.append({"attention_mask": numpy.array(rows + rows)[:3]})
    try:
        import torch

        mask = torch.tensor(rows)
        ways += [
            {"attention_mask": mask},
            {"attention_mask": mask.bool()},
            {"attention_mask": mask.t().contiguous().t()},
            {"lengths": mask.sum(1)},
            {"attention_mask": mask.to(torch.bfloat16)},
            {"attention_mask": mask.float().requires_grad_()},
        ]
    except ImportError:
        pass
    with opened(tmp_path, small) as monitor:
        for step, way in enumerate(ways):
            monitor.log_step(step, step_seconds=0.5, **way)
    logged = lines(tmp_path / "training_log.json")
    need = mfu.flops(small, lengths=[30, 7, 32]).model_flop
    assert [line["model_flop"] for line in logged] == [need] * len(ways)
    assert {line["perf/tokens_per_second"] for line in logged} == {138} and {
        line["perf/samples_per_second"] for line in logged
    } == {6}
    assert logged[0]["perf/mfu"] == pytest.approx(need / 0.5 / 1e15)


def test_positional_and_keyword_arguments_are_those_of_the_documents(tmp_path, small, lines):
    with opened(tmp_path, small, batch=2, seq=16) as monitor:
        monitor.log_step(0, 1, 2.5, 0.25, 1e-4, None, False)
        monitor.log_step(skip_wandb=False, learning_rate=1e-4, grad_norm=0.25, loss=2.5, epoch=1, step=1)
        monitor.log_step(**{"".join(["st", "ep"]): 2, "".join(["lo", "ss"]): 2.5})  # names that Python did not intern
        monitor.log_step(numpy.int64(3), numpy.float32(1), numpy.float64(2.5))
    logged = lines(tmp_path / "training_log.json")
    assert [line["step"] for line in logged] == [0, 1, 2, 3]
    for line in logged[:2]:
        assert (line["epoch"], line["loss"], line["grad_norm"], line["learning_rate"]) == (1, 2.5, 0.25, 1e-4)
    assert logged[2]["loss"] == logged[3]["loss"] == 2.5
    assert {line["model_flop"] for line in logged} == {mfu.flops(small, batch=2, seq=16).model_flop}


class Unhelpful:
    def __float__(self):
        raise RuntimeError("not now")

    __index__ = __float__

    def __repr__(self):
        return "Unhelpful()"


BAD = [
    {"step": 1, "loss": "x"},
    {"step": 2, "loss": Unhelpful()},
    {"step": 3, "batch": -1, "seq": 4},
    {"step": 4, "batch": 2.5, "seq": 4},
    {"step": 5, "tokens": True},
    {"step": 6, "attention_mask": numpy.ones((2, 1, 4, 4))},
    {"step": 7, "attention_mask": "mask"},
    {"step": 8, "attention_mask": [[1, 1], 3]},
    {"step": 9, "lengths": [3, -4]},
    {"step": 10, "lengths": 7},
    {"step": 11, "step_seconds": float("nan")},
    {"step": 12, "step_seconds": -1.0},
    {"step": 13, "loss": float("inf")},
    {"step": 14, "epoch": 10**400},
    {"step": 15, "counted_flop": -1},
    {"step": 16, "nonsense": 1},
    {"loss": 1.0},
    {"step": -1},
    {"step": 1.5},
    {"step": None},
    {"step": "x"},
    {"step": 2**70},
    {"step": Unhelpful()},
    {"step": 17, "seq": 2**40, "batch": 2**40},
]


@pytest.mark.parametrize("filters", ["always", "error"])
def test_nothing_that_is_wrong_raises_and_each_kind_is_said_once(tmp_path, small, filters, capfd):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter(filters)
        with opened(tmp_path, small) as monitor:
            for _ in range(3):
                for bad in BAD:
                    monitor.log_step(**bad)
                monitor.log_step(1, 2, 3, 4, 5, None, False, 8, 9)
                monitor.count_decode("x", 1)
                monitor.count_prefill([1, "x"])
                monitor.set_phase("later")
                monitor.add_reading(1, -5)
                monitor.add_reading("x", 5)
                assert monitor.measurement_due("x") is False
            found = monitor.warnings
    assert len(found) == len(set(found)) and len(found) >= 14
    if filters == "always":
        texts = [str(each.message) for each in said]
        assert len(texts) == len(set(texts)) == len(monitor.warnings)
    else:
        assert capfd.readouterr().err.count("mfu: ") == len(monitor.warnings)


def test_settings_that_cannot_be_used_are_warned_of(tmp_path, small):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        "monitoring:\n  flops_profile_freqs: 5\n  mfu_calculation_mode: clever\n  output_dir: "
        + str(tmp_path / "log")
        + "\n"
    )
    broken = tmp_path / "broken.yaml"
    broken.write_text("monitoring: [")
    for config, part in [
        (wrong, "did you mean 'monitoring.flops_profile_freq'"),
        (broken, "broken.yaml"),
        (tmp_path / "absent.yaml", "No such file"),
        (7, "YAML file or a dict"),
        ({"monitoring": {"peak": "fast"}}, "peak"),
        ({"output_dir": "/proc/none"}, "/proc/none"),
    ]:
        with pytest.warns(RuntimeWarning):
            with mfu.Monitor(config, wandb=False) as monitor:
                monitor.log_step(1, loss=1.0)
        assert any(part in message for message in monitor.warnings), (part, monitor.warnings)
    with pytest.warns(RuntimeWarning, match="no FLOPs can be estimated"):
        mfu.Monitor(model=tmp_path / "nothing.json", wandb=False).close()
    with pytest.warns(RuntimeWarning, match="MFU is left out"):
        mfu.Monitor(device="Voodoo 2", dtype="bf16", wandb=False).close()


def test_what_is_trained_holds_for_a_model_of_the_yaml_too_or_is_refused(tmp_path, small, lines):
    (tmp_path / "config.json").write_text(json.dumps(small))
    path = tmp_path / "train.yaml"
    path.write_text(
        f"monitoring:\n  mfu_calculation_mode: estimate\n  model: {tmp_path / 'config.json'}\n  output_dir:"
        f" {tmp_path}\n  peak: 1e15\n"
    )
    for number, trained in enumerate(
        [
            {},
            {"frozen": "model.layers.0.*"},
            {"frozen": ["model.layers.0.*", "lm_head"]},
            {"lora": 4},
            {"lora": (4, ["q_proj", "v_proj"])},
        ]
    ):
        with mfu.Monitor(path, log_file=f"{number}.json", wandb=False, **trained) as monitor:
            monitor.log_step(1, batch=2, seq=32, step_seconds=1.0)
        assert not monitor.warnings
        assert (
            lines(tmp_path / f"{number}.json")[0]["model_flop"]
            == mfu.flops(small, batch=2, seq=32, **trained).model_flop
        )
    for number, (trained, part) in enumerate(
        [
            ({"frozen": "no.such.weight"}, "no.such.weight"),
            ({"lora": (4, ["z_proj"])}, "z_proj"),
            ({"lora": 0}, "lora=0"),
            ({"lora": "four"}, "lora"),
        ]
    ):
        with pytest.warns(RuntimeWarning, match=part):
            with mfu.Monitor(path, log_file=f"wrong{number}.json", wandb=False, **trained) as monitor:
                monitor.log_step(1, batch=2, seq=32, step_seconds=1.0)
        assert lines(tmp_path / f"wrong{number}.json")[0]["perf/tokens_per_second"] == 64
    with pytest.warns(RuntimeWarning, match="without a model"):
        mfu.Monitor(lora=8, wandb=False).close()
    # it is not among the settings, so it is named and ignored
    path.write_text(path.read_text() + "  lora: 8\n  frozen: model.layers.0.*\n")
    with pytest.warns(RuntimeWarning):
        with mfu.Monitor(path, wandb=False) as monitor:
            pass
    assert sum("lora" in message or "frozen" in message for message in monitor.warnings) == 2


def test_yaml_and_dict_say_the_same_and_keywords_win(tmp_path, small, lines):
    text = (
        "model: other\nmonitor:\n  freq: {flops_profile_freq: 50, local_save_freq: 2}\n  mfu_calculation_mode:"
        " \"profiler\"\n  unmeasured: zero\n  dtype: bf16\n  log_file: '7'\n"
    )
    path = tmp_path / "train.yaml"
    path.write_text(text)
    as_dict = {
        "model": "other",
        "monitor": {
            "freq": {"flops_profile_freq": 50, "local_save_freq": 2},
            "mfu_calculation_mode": "profiler",
            "unmeasured": "zero",
            "dtype": "bf16",
            "log_file": "7",
        },
    }
    found = []
    for number, config in enumerate([path, str(path), as_dict, as_dict["monitor"]]):
        with mfu.Monitor(config, output_dir=tmp_path / str(number), peak=1e12, log_file="8", wandb=False) as monitor:
            found.append({key: value for key, value in monitor.settings.items() if key != "output_dir"})
            assert monitor.measurement_due(100) and not monitor.measurement_due(101)
            monitor.log_step(101, batch=1, seq=8, step_seconds=1.0)
        assert lines(tmp_path / str(number) / "8")[0]["perf/mfu"] == 0
    assert all(each == found[0] for each in found) and found[0]["log_file"] == "8"


def test_many_threads_log_and_count(tmp_path, small, lines):
    with opened(tmp_path, small, queue_capacity=2**15) as monitor:
        def work(first):
            for step in range(first, 4000, 4):
                monitor.log_step(step, loss=1.0, batch=1, seq=8, step_seconds=0.1)
                monitor.count_tokens(3)

        threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        monitor.flush(60)
        status = monitor.status()
    logged = lines(tmp_path / "training_log.json")
    assert status.logged + status.dropped == 4000 and status.dropped == 0
    assert sorted(line["step"] for line in logged) == list(range(4000))
    assert sum(line.get("mfu/total_tokens_generated", 0) for line in logged) <= 12000


def test_a_closed_monitor_ignores_and_a_dropped_one_is_collected(tmp_path, small):
    monitor = opened(tmp_path, small)
    monitor.log_step(0, loss=1.0)
    monitor.close()
    monitor.close()
    monitor.log_step(1, loss=1.0)
    monitor.count_tokens(1)
    with monitor.step(2) as at:
        at.loss = 1.0
    assert monitor.status().logged == 1
    import weakref

    other = opened(tmp_path / "other", small)
    gone = weakref.ref(other)
    del other
    deadline = time.monotonic() + 20
    while gone() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert gone() is None


def test_a_program_that_forgets_to_close_loses_nothing(tmp_path):
    program = (
        f"import mfu\nmonitor = mfu.Monitor(output_dir={str(tmp_path)!r}, wandb=False)\nfor step in range(100):"
        " monitor.log_step(step, loss=1.0, tokens=5)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "training_log.json").read_text().splitlines()) == 100


def test_a_forked_child_does_nothing_and_hangs_nowhere(tmp_path, small):
    with opened(tmp_path, small) as monitor:
        monitor.log_step(0, loss=1.0)
        child = os.fork()
        if child == 0:
            monitor.log_step(1, loss=1.0)
            monitor.log_step(2, loss=numpy.float32(1))
            monitor.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert [json.loads(line)["step"] for line in open(tmp_path / "training_log.json")] == [0]


def test_a_step_as_a_block_is_timed_and_what_fails_in_it_is_the_programs(tmp_path, small, lines):
    with opened(tmp_path, small) as monitor:
        with monitor.step(0, batch=1, seq=8) as at:
            time.sleep(0.02)
            at.loss, at.grad_norm = 3.0, 0.5
        with pytest.raises(ZeroDivisionError):
            with monitor.step(1):
                1 / 0
    (line,) = lines(tmp_path / "training_log.json")
    assert line["perf/step_time"] >= 0.02 and line["loss"] == 3 and line["grad_norm"] == 0.5


def test_a_step_is_timed_from_the_end_of_the_one_before(tmp_path, small, lines):
    with opened(tmp_path, small) as monitor:
        for step in range(3):
            time.sleep(0.03)  # outside of the block, where a loop may wait for its device
            with monitor.step(step, batch=1, seq=8):
                pass
    _, *rest = lines(tmp_path / "training_log.json")
    assert len(rest) == 2
    assert all(line["perf/step_time"] >= 0.03 for line in rest)


class Slow:
    """A number that a device gives later, like _masks.Later."""

    def __init__(self, value):
        self.arrived, self._value = False, value

    def ready(self):
        return self.arrived

    def value(self):
        return self._value


def test_numbers_of_a_device_are_awaited_by_nobody_and_keep_their_order(tmp_path, small, lines, monkeypatch):
    from mfu import _masks

    pending = {}

    def number(value):
        return pending.setdefault(value, Slow(float(value))) if value >= 100 else float(value)

    monkeypatch.setattr(_masks, "Later", Slow)
    monkeypatch.setattr(_masks, "number", number)
    with opened(tmp_path, small, batch=1, seq=8) as monitor:
        monitor.log_step(0, loss=numpy.float32(1))
        for step in range(1, 5):
            monitor.log_step(step, loss=numpy.float32(100 + step))
        time.sleep(0.1)
        monitor.log_step(5, loss=2.0)
        status = monitor.status()
        assert status.logged == 6 and status.reported <= 1  # the steps are in the queue and survive; their reports wait
        for each in list(pending.values())[::-1]:
            each.arrived = True
        monitor.flush()
    logged = lines(tmp_path / "training_log.json")
    assert [(line["step"], line["loss"]) for line in logged] == [(0, 1), (1, 101), (2, 102), (3, 103), (4, 104), (5, 2)]
    assert logged[5]["perf/step_time"] >= 0.1
