"""How a command ended, what its passes were for, and what its main thread did, according to the summary."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from expected import HERE, MFU, STEP

GOT = (
    "import os, signal, sys, time\nn = [0]\nsignal.signal(signal.SIGTERM, lambda *a: n.__setitem__(0, n[0] +"
    " 1))\nprint('ready', flush=True)\nend = time.time() + 20\nwhile time.time() < end and not n[0]:"
    " time.sleep(0.01)\ntime.sleep(0.5)\nprint(n[0], flush=True)\n"
)


def launch(tmp_path, *words, **more):
    return subprocess.Popen(
        [MFU, "run", "--dir", str(tmp_path / "run"), "--", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def summary(tmp_path):
    return json.loads((tmp_path / "run" / "summary.json").read_text())


@pytest.mark.parametrize("whom", ["group", "launcher", "each"])
def test_a_signal_arrives_once(tmp_path, whom):
    process = launch(tmp_path, sys.executable, "-c", GOT, start_new_session=True)
    assert process.stdout.readline() == "ready\n"
    if whom == "group":
        os.killpg(process.pid, signal.SIGTERM)
    elif whom == "launcher":
        process.send_signal(signal.SIGTERM)
    else:  # systemd and Slurm do this
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
        ).stdout.split()
        for pid in (*map(int, children), process.pid):
            os.kill(pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert out == "1\n" and process.returncode == 0
    assert summary(tmp_path)["ended"] == {"how": "exit", "status": 0, "signal": None, "rank": None}


def test_the_signal_that_ended_it_is_said(tmp_path):
    process = launch(tmp_path, "sh", "-c", "kill -9 $$")
    _, said = process.communicate(timeout=60)
    report = summary(tmp_path)
    assert report["ended"] == {"how": "signal", "status": 137, "signal": 9, "rank": None} and "signal 9" in said


def test_a_program_that_fails_before_it_computes_is_told_so_and_nothing_else(tmp_path):
    process = launch(tmp_path, sys.executable, "-c", "import torch, sys; sys.exit(1)")
    process.communicate(timeout=120)
    report = summary(tmp_path)
    assert report["ended"]["status"] == 1 and any("before it computed" in note for note in report["notes"])
    assert not any("--step-marker" in note or "first 0" in note for note in report["notes"])


def test_a_program_that_computes_nothing_gets_a_note_but_no_advice_on_steps(tmp_path):
    launch(tmp_path, sys.executable, "-c", "import torch; torch.zeros(3)").communicate(timeout=120)
    report = summary(tmp_path)
    assert report["ended"]["status"] == 0 and any("before it computed" in note for note in report["notes"])
    assert not any("--step-marker" in note for note in report["notes"])


KILLED = f"""
import os, signal, sys, time
sys.path.insert(0, {str(HERE)!r})
import torch.multiprocessing as mp
import programs
def rank(number):
    os.environ.update(RANK=str(number), WORLD_SIZE="2", LOCAL_RANK=str(number))
    programs.train(3)
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    programs.train(2)
if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    ranks = [context.Process(target=rank, args=(i,)) for i in range(2)]
    for each in ranks: each.start()
    for each in ranks: each.join()
    sys.exit(any(each.exitcode for each in ranks))
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_killed_rank_is_named(tmp_path, method):
    (tmp_path / "ranks.py").write_text(KILLED)
    launch(tmp_path, sys.executable, str(tmp_path / "ranks.py"), method).communicate(timeout=240)
    report = summary(tmp_path)
    assert report["partial"] and report["ended"]["status"] == 1 and report["ended"]["how"] == "lost"
    assert sum(rank["steps"] for rank in report["by_rank"]) == 8 and report["model_flop"] == 8 * STEP
    if method == "fork":  # spawned processes were observed before the program named their rank
        assert report["ended"]["rank"] == 1


# A launcher ends the other ranks after the one that was killed, as torchrun does.
KILLED_ALL = f"""
import os, signal, sys, time
sys.path.insert(0, {str(HERE)!r})
import torch.multiprocessing as mp
import programs
def rank(number):
    os.environ.update(RANK=str(number), WORLD_SIZE="2", LOCAL_RANK=str(number))
    programs.train(3)
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        programs.train(1)
if __name__ == "__main__":
    context = mp.get_context("fork")
    ranks = [context.Process(target=rank, args=(i,)) for i in range(2)]
    for each in ranks: each.start()
    ranks[1].join()
    time.sleep(2)
    ranks[0].terminate()
    ranks[0].join()
    sys.exit(1)
"""


def test_of_several_killed_ranks_the_first_is_named(tmp_path):
    (tmp_path / "ranks.py").write_text(KILLED_ALL)
    launch(tmp_path, sys.executable, str(tmp_path / "ranks.py")).communicate(timeout=240)
    report = summary(tmp_path)
    assert report["partial"] and report["ended"]["how"] == "lost" and report["ended"]["rank"] == 1
    notes = [note for note in report["notes"] if "ended without saying so" in note]
    assert [note.split()[1] for note in notes] == ["1", "0"]


SLEEPS = f"""
import sys, time
sys.path.insert(0, {str(HERE)!r})
import programs, torch
torch.set_num_threads(1)
programs.train(30, pause=0.05)
"""


def test_a_step_that_sleeps_is_told_that_it_sleeps(tmp_path):
    launch(tmp_path, sys.executable, "-c", SLEEPS).communicate(timeout=240)
    report = summary(tmp_path)
    host = report["host"]
    assert abs(sum(host.values()) - 1) < 1e-9
    assert host["sleep_fraction"] > 0.3 and host["sleep_fraction"] + host["preempted_fraction"] > 0.6
    assert "implementation" not in [each["cause"] for each in report["suggestions"]]
    assert report["suggestions"][0]["cause"] == "host"


# Each way blocks the loop for 40 ms in every step. The tests below name the line of `host` that must show it.
BLOCKS = f"""
import os, sys, threading, time
sys.path.insert(0, {str(HERE)!r})
import programs, torch
torch.set_num_threads(1)
got, put = os.pipe()
asked, lock = threading.Semaphore(0), threading.Semaphore(0)
def others():
    while True:
        asked.acquire()
        time.sleep(0.04)
        os.write(put, b"x")
        lock.release()
threading.Thread(target=others, daemon=True).start()
state = dict((str(i), torch.zeros(1 << 20)) for i in range(16))
def write():
    with open("file", "wb") as file:
        file.write(b"x" * (16 << 20))
        file.flush()
        os.fsync(file.fileno())
save = lambda: torch.save(state, "state.pt")
stop = dict(pipe=lambda: os.read(got, 1), lock=lock.acquire, save=save, file=write)[sys.argv[1]]
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(25):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    asked.release()
    stop()
"""


@pytest.mark.parametrize(("what", "line"), [("pipe", "idle"), ("lock", "idle"), ("save", "io")])
def test_what_blocks_the_main_thread_is_told_apart(tmp_path, what, line):
    launch(tmp_path, sys.executable, "-c", BLOCKS, what, cwd=tmp_path).communicate(timeout=240)
    report = summary(tmp_path)
    host = report["host"]
    assert abs(sum(host.values()) - 1) < 1e-9
    blocked = {name: host[f"{name}_fraction"] for name in ("io", "sleep", "idle")}
    assert blocked.pop(line) > 10 * max(blocked.values())
    if line == "idle" and host["idle_fraction"] > 0.5:
        assert [each["code"] for each in report["findings"]][0] == "host_waits"


def test_waiting_for_a_file_is_reported(tmp_path):
    data = b"x" * (16 << 20)

    def write():
        with open(tmp_path / "file", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    wall, cpu = time.monotonic(), time.process_time()
    write()
    if time.monotonic() - wall - (time.process_time() - cpu) < 0.005:
        pytest.skip("a disk that must be waited for is not at hand")
    launch(tmp_path, sys.executable, "-c", BLOCKS, "file", cwd=tmp_path).communicate(timeout=240)
    host = summary(tmp_path)["host"]
    assert host["io_fraction"] > 2 * host["sleep_fraction"] and host["io_fraction"] > 0


BUSY = """
import os, torch
torch.set_num_threads(1)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
net = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(150):
    net(torch.randn(2048, 256)).sum().backward()
    optimizer.step()
"""


def test_cores_that_others_hold_are_told_from_computing(tmp_path):
    core = min(os.sched_getaffinity(0))
    hogs = [
        subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"])
        for _ in range(3)
    ]
    try:
        time.sleep(0.5)
        launch(tmp_path, sys.executable, "-c", BUSY).communicate(timeout=240)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    report = summary(tmp_path)
    assert report["host"]["preempted_fraction"] > 0.4 and report["suggestions"][0]["cause"] == "host"


def test_the_sums_of_the_phases_are_the_runs(tmp_path):
    program = f"import sys; sys.path.insert(0, {str(HERE)!r}); import programs; programs.train(5); programs.infer(4)"
    launch(tmp_path, sys.executable, "-c", program).communicate(timeout=240)
    report = summary(tmp_path)
    for key in ("model_flop", "hardware_flop"):
        assert sum(phase[key] for phase in report["phases"]) == report[key]
    phases = {phase["phase"]: phase for phase in report["phases"]}
    assert (
        phases["train"]["model_flop"] == 5 * STEP
        and phases["train"]["model"] == "Sequential"
        and phases["train"]["passes"] == 5
    )
    assert phases["forward"]["passes"] == 4
    assert report["tokens"] is None and all(rank["tokens"] is None for rank in report["by_rank"])
