"""What a monitor must not do to its program: swallow exceptions, raise its own, hang children, wait for devices."""

import functools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest

import mfu
from mfu import _manners, _masks

torch = pytest.importorskip("torch", reason="torch is not at hand")


def opened(folder, **more):
    return mfu.Monitor(output_dir=folder, mode="estimate", wandb=False, **more)


class OutOfTime(Exception):
    pass


def raising(number, frame):
    raise OutOfTime


class Handler:
    def method(self, number, frame):
        raise OutOfTime

    def __call__(self, number, frame):
        inner(number)


def inner(number):
    raise OutOfTime


def interrupted(monitor, rounds, expected, **given):
    """A timer interrupts log_step at random instants. Returns how many of its exceptions reach the caller."""
    reached = 0
    for step in range(rounds):
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-6 + 4e-7 * (step % 250))
            for _ in range(40):
                monitor.log_step(step, **given)
            while signal.getitimer(signal.ITIMER_REAL)[0]:
                pass
            late = time.monotonic() + 2  # on a busy machine the signal may come after the timer has run out
            while time.monotonic() < late:
                pass
        except expected:
            reached += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return reached


@pytest.mark.parametrize("handler, expected", [(raising, OutOfTime), (Handler().method, OutOfTime), (Handler(), OutOfTime), (functools.partial(raising), OutOfTime),
                                               (lambda *_: inner(0), OutOfTime), (signal.default_int_handler, KeyboardInterrupt)])
def test_what_a_signal_handler_raises_reaches_the_program(tmp_path, handler, expected, no_collector):
    mask, loss = torch.ones(4, 16), torch.tensor(1.0)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with opened(tmp_path) as monitor:
            assert interrupted(monitor, 300, expected, loss=loss, grad_norm=loss, attention_mask=mask) == 300
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not any("OutOfTime" in warning for warning in monitor.warnings)


def test_an_exception_of_the_values_own_is_still_ours(tmp_path):
    class Broken:
        def __float__(self):
            raise OutOfTime("mine")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with opened(tmp_path) as monitor:
            monitor.log_step(0, loss=Broken(), tokens=4)
    assert "mine" in monitor.warnings[0] and monitor.status().logged == 1


class Silent:
    """A value that cannot be printed and is not a number."""

    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __float__ = __index__ = __int__ = __repr__


def test_no_argument_makes_a_method_raise(tmp_path):
    wrong = [None, -1, 1.5, "x", Silent(), [], 2**80, float("nan"), float("inf"), True, b"1", object()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with opened(tmp_path, flop_per_token=1e9, mfu_calculation_freq=1) as monitor:
            for each in wrong:
                monitor.count_tokens(each)
                monitor.count_prefill(each)
                monitor.count_prefill([each])
                monitor.count_decode(each, 1)
                monitor.count_decode(1, each)
                monitor.set_phase(each)
                monitor.measurement_due(each)
                monitor.add_reading(each, each)
                monitor.add_reading(1, 5, lengths=each)
                monitor.log_step(each)
                monitor.log_step(1, loss=each, batch=each, attention_mask=each, lengths=each)
                monitor.log_step(1, each=each)
                monitor.flush(each)
            monitor.flush()
            monitor.count_tokens()
            monitor.count_tokens(1, 2)
            monitor.count_tokens(nothing=3)
            monitor.count_tokens(5)
            monitor.count_tokens(7.0)
            monitor.count_tokens(tokens=11)
            monitor.count_tokens(torch.tensor(13))
            monitor.log_step(50, tokens=4, step_seconds=1.0)
            monitor.flush()
            assert monitor.last_report()["mfu/total_tokens_generated"] == 36


def test_the_documented_monitor_takes_arguments_that_the_document_does_not_have(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        monitor = mfu.compat.TrainingMonitor(str(tmp_path))
        monitor.log_step(1, 1, 2.0, 1.0, 1e-4, tokens=512, nonsense=3)
        monitor.monitor.close()
    assert any("no argument 'nonsense'" in str(each.message) for each in caught)
    (line,) = (tmp_path / "training_log.json").read_text().splitlines()
    assert json.loads(line)["loss"] == 2.0


@pytest.mark.parametrize("stderr", ["sys.stderr.close()", "sys.stderr = None", "os.close(2)", "sys.stderr = open(os.devnull)"])
def test_a_closed_standard_error_stops_nobody(tmp_path, stderr):
    program = f"""import os, sys, warnings
warnings.simplefilter(sys.argv[1])
{stderr}
import mfu
monitor = mfu.Monitor({{"nonsense": 1}}, output_dir={str(tmp_path)!r}, wandb=False)
monitor.log_step("x")
monitor.log_step(1, loss=1.0)
monitor.count_tokens(-1)
from mfu.compat import calculate_mfu
calculate_mfu(1, 1, "no size")
monitor.close()
assert len(monitor.warnings) >= 3
"""
    for filters, unbuffered in (("always", ""), ("error", ""), ("error", "1")):  # a buffer changes the exit status
        done = subprocess.run([sys.executable, "-c", program, filters], stdout=subprocess.PIPE, timeout=120,
                              env=dict(os.environ, PYTHONUNBUFFERED=unbuffered))
        assert done.returncode == 0


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 1>&- 2>&-"])
def test_what_a_program_prints_where_its_output_is_closed_reaches_no_file(tmp_path, closed):
    program = f"""import os, mfu
monitor = mfu.Monitor(output_dir={str(tmp_path)!r}, csv={str(tmp_path / "a.csv")!r}, wandb=False)
monitor.log_step(0, loss=1.0)
monitor.flush()
for number in (1, 2):
    try:
        os.write(number, b"a library complains" * 100)
    except OSError:
        pass
os.close(2)  # now as well, and a file that is opened later
other = mfu.Monitor(output_dir={str(tmp_path / "other")!r}, wandb=False)
other.log_step(0)
other.close()
monitor.log_step(1, loss=2.0)
monitor.close()
"""
    command = shlex.join([sys.executable, "-c", program])
    assert subprocess.run(["sh", "-c", f"{command} {closed}"], timeout=120, capture_output=True).returncode == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not any(b"complains" in path.read_bytes() for path in files)
    lines = (tmp_path / "training_log.json").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [1.0, 2.0]


def test_fork_while_threads_log_tensors_hangs_no_child(tmp_path):
    stop = threading.Event()
    with opened(tmp_path, queue_capacity=2**15) as monitor:
        def work():
            loss, mask = torch.tensor(1.0), torch.ones(2, 8)
            while not stop.is_set():
                monitor.log_step(1, loss=loss, attention_mask=mask)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(60):
                child = os.fork()
                if child == 0:
                    signal.alarm(20)
                    monitor.log_step(2, loss=torch.tensor(2.0))
                    monitor.log_step(3, loss=1.0)
                    monitor.count_tokens(-1)
                    monitor.status(), monitor.last_report(), monitor.warnings, monitor.flush(1)
                    monitor.close()
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()


class Elsewhere:
    """A tensor of a device other than CUDA. Its numbers take a while, and whoever reads them waits."""

    def __init__(self, value, seconds):
        self._value, self._seconds = torch.as_tensor(value), seconds
        self.device, self.requires_grad, self.shape = type("Device", (), {"type": "npu"})(), False, self._value.shape

    def to(self, *given):
        raise AssertionError("nobody asked")

    def detach(self):
        return self

    def clone(self):
        return Elsewhere(self._value.clone(), self._seconds)

    def numel(self):
        return self._value.numel()

    def dim(self):
        return self._value.dim()

    def __ne__(self, other):
        return Elsewhere(self._value != other, self._seconds)

    def sum(self, dimension):
        return Elsewhere(self._value.sum(dimension), self._seconds)

    def cpu(self):
        time.sleep(self._seconds)
        return self._value


def test_a_tensor_of_any_device_is_waited_for_by_nobody_but_us(tmp_path, lines):
    with opened(tmp_path) as monitor:
        slowest = 0.0
        for step in range(8):
            loss = Elsewhere(float(step), 0.1)
            began = time.perf_counter()
            monitor.log_step(2 * step, loss=loss, attention_mask=Elsewhere([[1, 1, 0], [1, 0, 0]], 0.02), step_seconds=0.5)
            slowest = max(slowest, time.perf_counter() - began)
            loss._value += 100  # a running sum; each step has the value of its time
            monitor.log_step(2 * step + 1, loss=0.5, tokens=1, step_seconds=0.5)
        assert slowest < 0.09
        assert monitor.flush(30)
    logged = lines(tmp_path / "training_log.json")
    assert [line["step"] for line in logged] == list(range(16))
    assert [line["loss"] for line in logged][::2] == [float(step) for step in range(8)]
    assert {line["perf/tokens_per_second"] for line in logged[::2]} == {6}


KILLED = """
import os, signal, sys, threading, mfu
from mfu import _masks
class Never(_masks.Later):
    def __init__(self): pass
    def ready(self): return False
monitor = mfu.Monitor(output_dir=sys.argv[1], mode="estimate", wandb=False, batch=2, seq=8)
number = _masks.number
_masks.number = lambda value: Never() if value is Ellipsis else number(value)
for step in range(100000):
    monitor.log_step(step, loss=..., learning_rate=0.5) if step % 3 else monitor.log_step(step, loss=1.5)
    os.write(1, b"%d\\n" % step)
"""


def test_steps_whose_tensors_are_late_survive_kill_9_without_them(tmp_path):
    for number in range(5):
        folder = tmp_path / str(number)
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, env=dict(os.environ, MFU_REGION_DIR=str(tmp_path)))
        for _ in range(50 + 100 * number):
            line = process.stdout.readline()
        process.kill()
        said = line + process.stdout.read()
        process.wait()
        returned = len(said.rpartition(b"\n")[0].splitlines()) + 49 + 100 * number
        exported = folder / "all.json"
        command = os.environ.get("MFU_COMMAND", os.path.join(os.path.dirname(__file__), "../../../build/release/mfu"))
        subprocess.run([command, "export", str(folder), "--jsonl", str(exported), "--tensorboard", str(folder / "board")], check=True, timeout=120)
        left = [json.loads(line) for line in exported.read_text().splitlines()]
        assert [line["step"] for line in left] == list(range(len(left))) and len(left) >= returned
        assert all(line.get("loss") == (None if line["step"] % 3 else 1.5) for line in left)
        assert all(line["learning_rate"] == 0.5 for line in left if line["step"] % 3)
        assert list((folder / "board").iterdir())


def test_a_character_beyond_the_first_plane_costs_nothing_else(tmp_path, lines):
    folder = tmp_path / "run 🚀"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mfu.Monitor({"log_file": "лог 𝔪.json"}, output_dir=folder, peak=1e12, csv=folder / "table 🎉.csv", wandb=False) as monitor:
            monitor.log_step(1, loss=2.5, learning_rate=0.1, **{"🚀": 3})
            monitor.log_step(2, loss=3.5, **{"\ud83d": 3})
        assert [(line["step"], line["loss"]) for line in lines(folder / "лог 𝔪.json")] == [(1, 2.5), (2, 3.5)]
        assert len((folder / "table 🎉.csv").read_text().splitlines()) == 3
        assert sum("has no argument" in warning for warning in monitor.warnings) == 2
        with mfu.Monitor({"log_file": "half \ud83d"}, output_dir=tmp_path / "half", wandb=False) as monitor:
            monitor.log_step(1, loss=1.0)
        assert (tmp_path / "half" / "mfu-run").is_dir()


def test_close_returns_in_the_time_that_is_stated(tmp_path, monkeypatch):
    from mfu import _monitor

    monkeypatch.setattr(_monitor, "_CLOSE_SECONDS", 1.0)
    monkeypatch.setattr(_monitor, "_DEVICE_SECONDS", 0.3)
    os.mkfifo(tmp_path / "pipe")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        monitor = mfu.Monitor(output_dir=tmp_path, jsonl=tmp_path / "pipe", wandb=False)
        for step in range(100):
            monitor.log_step(step, loss=1.0)
        monitor.log_step(100, loss=Elsewhere(1.0, 30))
        began = time.monotonic()
        monitor.close()
        assert time.monotonic() - began < 3
    assert len((tmp_path / "training_log.json").read_text().splitlines()) == 101
    os.close(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK))


class Run:
    """The part of a W&B run that this test needs. It fails when it is told to."""

    def __init__(self, failures):
        self.step, self.rows, self.failures = 0, [], failures

    def define_metric(self, *given, **named):
        pass

    @property
    def config(self):
        return self

    def update(self, *given, **named):
        pass

    def log(self, row, step):
        if self.failures:
            self.failures -= 1
            raise OSError("no network")
        self.rows.append(row["mfu/step"])


def test_w_and_b_is_tried_again_and_gets_every_step_once(tmp_path, monkeypatch):
    package = type(sys)("wandb")
    package.run = run = Run(2)
    monkeypatch.setitem(sys.modules, "wandb", package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mfu.Monitor(output_dir=tmp_path) as monitor:
            for step in range(20):
                monitor.log_step(step, loss=1.0, tokens=4, step_seconds=0.1)
            monitor.flush()
            assert not run.rows
            deadline = time.monotonic() + 20
            while len(run.rows) < 20 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert run.rows == list(range(20))
            monitor.log_step(20, loss=1.0)
    assert run.rows == list(range(21))
    assert sum("Weights & Biases" in warning for warning in monitor.warnings) == 1


def test_what_w_and_b_never_got_is_counted_and_said(tmp_path, monkeypatch):
    package = type(sys)("wandb")
    package.run = Run(10**9)
    monkeypatch.setitem(sys.modules, "wandb", package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mfu.Monitor(output_dir=tmp_path) as monitor:
            for step in range(20):
                monitor.log_step(step, loss=1.0, tokens=4, step_seconds=0.1)
    assert monitor.status()["unsent"] == 20
    assert any("20 reports did not reach it" in warning for warning in monitor.warnings)


def test_w_and_b_that_hangs_is_named_and_left_behind(tmp_path, monkeypatch):
    package = type(sys)("wandb")
    package.run = run = Run(0)
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.setattr(mfu._monitor, "_CLOSE_SECONDS", 1.0)
    inside, go = threading.Event(), threading.Event()
    run.log = lambda row, step: (inside.set(), go.wait())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mfu.Monitor(output_dir=tmp_path) as monitor:
            monitor.log_step(1, loss=1.0, tokens=4, step_seconds=0.1)
            assert inside.wait(60)
    go.set()
    assert any("Weights & Biases hangs" in warning for warning in monitor.warnings)
    assert (tmp_path / "training_log.json").read_text().count("\n") == 1


def test_a_clamped_mfu_is_said_each_time_with_the_real_one(monkeypatch):
    from mfu import compat

    monkeypatch.setattr(compat, "_measure_flops_with_profiler", lambda *_: 5e12)
    monkeypatch.setattr(compat, "get_gpu_peak_flops", lambda: 1e12)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for seconds in (10.0, 1.0, 2.0):
            assert compat.calculate_mfu_with_profiler(None, 1, 8, seconds) == min(1.0, 5 / seconds)
    texts = [str(each.message) for each in said if "gives 1 where" in str(each.message)]
    assert len(texts) == 2 and "where 5 was" in texts[0] and "where 2.5 was" in texts[1]


def test_the_documented_monitor_is_exported_without_any_option(tmp_path):
    from mfu.compat import TrainingMonitor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with TrainingMonitor(tmp_path / "out") as monitor:
            for step in range(5):
                monitor.log_step(step, 0, 1.0, 0.5, 1e-4)
    command = os.environ.get("MFU_COMMAND", os.path.join(os.path.dirname(__file__), "../../../build/release/mfu"))
    subprocess.run([command, "export", str(tmp_path / "out"), "--tensorboard", str(tmp_path / "board")], check=True, timeout=120)
    assert list((tmp_path / "board").iterdir())
    with mfu.Monitor(output_dir=tmp_path / "without", run_dir=False, wandb=False) as monitor:
        monitor.log_step(1)
    assert not (tmp_path / "without" / "mfu-run").exists() and monitor.status().run_directory == ""


def test_an_export_holds_a_few_steps_at_a_time(tmp_path, lines):
    """300,000 steps are 290 MB of reports, but the command may use only 200 MB of addresses, libraries included."""
    steps = 300_000
    with opened(tmp_path / "out", log_file="", queue_capacity=2**16) as monitor:
        for step in range(steps):
            monitor.log_step(step, loss=1.0, tokens=8, duration_s=0.5)
            if step % 20_000 == 0:
                monitor.flush(60)
    assert monitor.status().dropped == 0
    command = os.environ.get("MFU_COMMAND", os.path.join(os.path.dirname(__file__), "../../../build/release/mfu"))
    export = f"ulimit -v 200000; exec '{command}' export '{tmp_path}/out' --jsonl '{tmp_path}/all.json' --csv '{tmp_path}/all.csv' --tensorboard '{tmp_path}/board'"
    done = subprocess.run(["bash", "-c", export], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    logged = lines(tmp_path / "all.json")
    assert len(logged) == steps and logged[-1]["step"] == steps - 1


@pytest.mark.skipif(os.geteuid() != 0, reason="the rights of root, to number processes anew, are not at hand")
@pytest.mark.parametrize("shared", [True, False])
def test_a_container_started_again_loses_nothing(tmp_path, shared):
    """Both have the same process number, host name and output folder, and share memory (--ipc=host) or not."""
    program = f"""import os, signal, sys, time, mfu
first = int(sys.argv[1])
monitor = mfu.Monitor(output_dir={str(tmp_path / 'out')!r}, mode="estimate", wandb=False)
for step in range(first, first + 100): monitor.log_step(step, loss=1.0)
if sys.argv[2] == "wait": monitor.flush()
print(os.getpid(), flush=True)
os.kill(os.getpid(), signal.SIGKILL) if os.getpid() != 1 else os._exit(9)
"""
    numbers = []
    for first in (0, 100, 200):
        region = tmp_path / ("region" if shared else f"region{first}")
        region.mkdir(exist_ok=True)
        done = subprocess.run(["unshare", "--pid", "--fork", sys.executable, "-c", program, str(first), "at once" if shared else "wait"], capture_output=True, text=True,
                              timeout=120, env=dict(os.environ, MFU_REGION_DIR=str(region)))
        if "unshare" in done.stderr:
            pytest.skip("unshare is not at hand: not allowed here")
        numbers.append(int(done.stdout))
    assert len(set(numbers)) == 1
    command = os.environ.get("MFU_COMMAND", os.path.join(os.path.dirname(__file__), "../../../build/release/mfu"))
    subprocess.run([command, "export", str(tmp_path / "out"), "--jsonl", str(tmp_path / "all.json")], check=True, timeout=120)
    assert [json.loads(line)["step"] for line in (tmp_path / "all.json").read_text().splitlines()] == list(range(300))
    assert len(list((tmp_path / "out" / "mfu-run").glob("*.bin"))) == 3


def test_every_promise_names_tests_that_are_there():
    root = os.path.join(os.path.dirname(__file__), "../../..")
    with open(os.path.join(root, "docs/reliability.md"), encoding="utf-8") as page:
        named = {name for name in re.findall(r"`(test_\w+|[A-Z]\w{9,}|[a-z]+(?:_[a-z0-9]+){3,})`", page.read()) if not name.isupper()}
    sources = [os.path.join(folder, name) for top in ("src", "tests/python") for folder, _, names in os.walk(os.path.join(root, top))
               for name in names if name.endswith(("_test.cc", ".py"))]
    text = "".join(open(path, encoding="utf-8").read() for path in sources)
    assert len(named) > 30
    assert not [name for name in sorted(named) if f", {name})" not in text and f"def {name}(" not in text and f"class {name} " not in text]


def test_a_message_can_be_made_of_anything():
    assert _manners.short(Silent()) == "<Silent>" and _manners.short("x" * 100).endswith("...")
    assert _masks.on_device(Elsewhere(1.0, 0)) and not _masks.on_device(torch.ones(1))
