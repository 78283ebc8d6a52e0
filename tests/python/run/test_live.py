"""`mfu explain --live` asks a running program for a window, without a signal and without a port."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from expected import HERE, MFU

PLANTED = os.path.join(str(HERE), "planted.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29551"]


@contextlib.contextmanager
def running(folder, name, command=(sys.executable,), steps=100000):
    words = [MFU, "run", "--dir", str(folder), "--", *command, PLANTED, name, str(steps)]
    program = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield program
    finally:
        program.send_signal(signal.SIGTERM)
        try:
            program.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()


def live(folder, *options):
    words = [MFU, "explain", "--live", str(folder), *options, "--json"]
    return subprocess.run(words, capture_output=True, text=True, timeout=200)


def asked(folder, *options):
    """Asks again until the program has taken its first steps."""
    until = time.monotonic() + 100
    while True:
        done = live(folder, *options)
        early = "no such run" in done.stdout or "taken a step yet" in done.stdout
        if not early or time.monotonic() > until:
            return done
        time.sleep(0.5)


@pytest.mark.usefixtures("torchrun")
def test_two_ranks_answer_together_twice_and_an_ended_run_is_refused(tmp_path):
    folder = tmp_path / "run"
    with running(folder, "ranks", TORCHRUN):
        for _ in range(2):
            done = asked(folder, "--steps", "2", "--timeout", "120s")
            assert done.returncode == 0, done.stdout + done.stderr
            report = json.loads(done.stdout)
            assert report["schema"] == "mfu.explain/1" and [rank["rank"] for rank in report["ranks"]] == [0, 1]
            for rank in report["ranks"]:
                assert rank["window"]["steps"] == 2 and rank["model_flop"] > 0
                assert sum(line["duration_ns"] for line in rank["ledger"]) == rank["window"]["duration_ns"]
    refused = live(folder, "--timeout", "5s")
    assert refused.returncode == 2 and "has ended" in json.loads(refused.stdout)["message"]
    left = os.listdir(folder)
    assert not [name for name in left if name.startswith("request-") or name.endswith(".part")], left


def test_a_program_whose_steps_take_too_long_is_given_up_with_the_reason(tmp_path):
    folder = tmp_path / "run"
    with running(folder, "stuck") as program:
        done = asked(folder, "--timeout", "3s")
        assert done.returncode == 2 and "no step ended in that time" in json.loads(done.stdout)["message"], done.stdout
        assert program.poll() is None
