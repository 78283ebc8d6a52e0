"""`mfu run --steps N` ends the command after N steps, as if it had ended by itself."""

import json
import subprocess
import sys
import time

import pytest
from expected import HERE, MFU

HEAD = f"""
import atexit, os, signal, sys, threading, time
sys.path.insert(0, {str(HERE)!r})
import torch
atexit.register(lambda: print("atexit", flush=True))
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
done = 0
def step():
    global done
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    done += 1
"""
LOOP = HEAD + """
try:
    while True: step()
finally:
    print(f"finally {done}\\n", end="", flush=True)
"""


def run(tmp_path, program, *options, command=None):
    words = [MFU, "run", "--dir", str(tmp_path / "run"), *options, "--", *(command or [sys.executable, "-c", program])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=180)
    return done, json.loads((tmp_path / "run" / "summary.json").read_text())


def test_a_loop_without_end_ends_after_the_steps_asked_for(tmp_path):
    done, report = run(tmp_path, LOOP, "--steps", "5")
    assert done.returncode == 0, done.stderr
    # The last step ends inside optimizer.step(), so the loop's own count is one behind.
    assert done.stdout == "finally 4\natexit\n"
    assert report["steps"] == 5 and report["stopped_after_steps"] == 5
    assert report["ended"]["how"] == "stopped" and report["exit_status"] == 0


def test_a_program_with_a_handler_of_its_own_ends_as_it_likes(tmp_path):
    program = HEAD + """
stop = []
signal.signal(signal.SIGTERM, lambda *a: stop.append(1))
while not stop: step()
step()
print("saved", flush=True)
"""
    done, report = run(tmp_path, program, "--steps", "3")
    assert done.stdout == "saved\natexit\n" and report["stopped_after_steps"] == 3 and report["steps"] == 4


def test_a_loop_in_another_thread_ends_too(tmp_path):
    program = HEAD + """
def loop():
    while True: step()
thread = threading.Thread(target=loop)
thread.start()
thread.join()
"""
    done, report = run(tmp_path, program, "--steps", "3", "--grace", "60s")
    assert done.returncode == 0 and "atexit" in done.stdout and report["ended"]["how"] == "stopped"


def test_a_program_that_refuses_to_end_is_killed_after_the_grace(tmp_path):
    program = HEAD + """
while True:
    try:
        step()
    except BaseException:
        pass
"""
    start = time.monotonic()
    done, report = run(tmp_path, program, "--steps", "3", "--grace", "2s")
    assert done.returncode == 0 and report["ended"]["how"] == "stopped" and report["ended"]["signal"] == 9
    assert report["exit_status"] == 0 and time.monotonic() - start < 120


def test_processes_beside_the_ranks_end_with_their_finally(tmp_path):
    begun = tmp_path / "begun"
    helper = (
        f"import time\ntry:\n    open({str(begun)!r}, 'w')\n    time.sleep(600)\n"
        "finally:\n    print('helper left', flush=True)\n"
    )
    shell = '"$0" -c "$1" & until [ -e "$3" ]; do sleep 0.1; done; "$0" -c "$2"; wait'
    done, _ = run(tmp_path, LOOP, "--steps", "3", command=["sh", "-c", shell, sys.executable, helper, LOOP, str(begun)])
    assert done.returncode == 0 and "helper left" in done.stdout and "atexit" in done.stdout


@pytest.mark.usefixtures("torchrun")
def test_two_ranks_leave_together(tmp_path):
    program = tmp_path / "ranks.py"
    program.write_text(HEAD + """
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(model)
try:
    while True: step()
finally:
    print(f"finally {done}\\n", end="", flush=True)
""")
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "29541",
        str(program),
    ]
    done, report = run(tmp_path, "", "--steps", "4", command=torchrun)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finally 3") == 2
    assert report["ended"]["how"] == "stopped" and report["exit_status"] == 0 and report["ranks"] == 2


def test_a_program_that_ends_earlier_is_left_alone(tmp_path):
    done, report = run(tmp_path, HEAD + "step(); step()", "--steps", "30")
    assert report["ended"]["how"] == "exit" and report["stopped_after_steps"] is None and report["steps"] == 2
    assert "before the 30 steps" in done.stderr


@pytest.mark.parametrize(
    "options", [("--steps", "0"), ("--steps", "x"), ("--grace", "5s"), ("--steps", "3", "--grace", "soon")]
)
def test_what_makes_no_sense_is_refused_before_the_command_starts(tmp_path, options):
    done = subprocess.run(
        [MFU, "run", "--dir", str(tmp_path / "run"), *options, "--", "echo", "started"], capture_output=True, text=True
    )
    assert done.returncode == 2 and "started" not in done.stdout


def test_a_signal_of_somebody_else_is_what_it_was(tmp_path):
    done, report = run(
        tmp_path, HEAD + "step()\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)\n", "--steps", "30"
    )
    assert done.returncode == 143 and report["ended"]["how"] == "signal" and report["ended"]["signal"] == 15
