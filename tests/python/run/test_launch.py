"""mfu run as a launcher: the command and its caller see the same as without it."""

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))


@pytest.fixture
def run(tmp_path):
    def run(*words, options=(), **more):
        more.setdefault("cwd", tmp_path)
        return subprocess.run(
            [MFU, "run", "--dir", str(tmp_path / "run"), *options, "--", *words],
            capture_output=True,
            text=True,
            timeout=120,
            **more,
        )

    return run


def summary(tmp_path):
    return json.loads((tmp_path / "run" / "summary.json").read_text())


@pytest.mark.parametrize("status", [0, 1, 3, 42, 255])
def test_exit_status_is_the_commands(run, status):
    assert run("sh", "-c", f"exit {status}").returncode == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_that_ends_the_command_is_128_more(run, tmp_path, number):
    assert run("sh", "-c", f"kill -{int(number)} $$").returncode == 128 + number
    assert summary(tmp_path)["exit_status"] == 128 + number


def test_output_is_untouched_and_input_passed_on(run):
    done = run("sh", "-c", "cat; echo error >&2", input="line one\nline two")
    assert done.stdout == "line one\nline two"
    assert done.stderr.startswith("error\n")


@pytest.mark.parametrize("closed, numbers", [("2>&-", [2]), ("0<&- 1>&- 2>&-", [0, 1, 2])])
def test_where_output_is_closed_the_summary_goes_into_no_file(tmp_path, closed, numbers):
    pytest.importorskip("torch")
    program = """
import os, sys, torch
def is_closed(number):
    try:
        os.fstat(number)
    except OSError:
        return True
closed = [number for number in range(3) if is_closed(number)]
open("closed", "w").write(repr(closed))
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(3):
    layer(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""
    command = shlex.join([MFU, "run", "--dir", "run", "--peak", "1e12", "--", sys.executable, "-c", program])
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode == 0
    assert (tmp_path / "closed").read_text() == repr(numbers)  # the same as without mfu
    files = list((tmp_path / "run").iterdir())
    assert any(path.suffix == ".steps" for path in files)
    assert not any(b"very low" in path.read_bytes() for path in files)


def test_a_limit_of_file_sizes_ends_neither_the_command_nor_us(tmp_path):
    program = f"open({str(tmp_path / 'ran')!r}, 'w').write('yes')"
    command = shlex.join([MFU, "run", "--dir", "run", "--", sys.executable, "-c", program])
    limited = f"ulimit -f 1; {command}; echo $? > status"
    done = subprocess.run(["sh", "-c", limited], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (tmp_path / "ran").read_text() == "yes"
    assert (tmp_path / "status").read_text() == "0\n", done.stderr


def test_json_is_the_last_line_and_alone_in_its_file(run, tmp_path):
    done = run("echo", "hello", options=["--json", "--json-file", str(tmp_path / "alone.json")])
    lines = done.stdout.splitlines()
    assert lines[0] == "hello" and len(lines) == 2
    assert json.loads(lines[1]) == json.loads((tmp_path / "alone.json").read_text()) == summary(tmp_path)


def test_a_program_without_torch_is_said_and_nothing_is_made_up(run, tmp_path):
    assert run(sys.executable, "-c", "print(1)").returncode == 0
    report = summary(tmp_path)
    assert report["schema"] == "mfu.run/1" and report["ranks"] == 0 and report["steps"] == 0
    for key in (
        "model_flop",
        "hardware_flop",
        "recomputed_flop",
        "mfu",
        "hfu",
        "mfu_wall",
        "tokens",
        "data_wait_fraction",
    ):
        assert report[key] is None, key
    assert any("imported torch" in note for note in report["notes"])


def test_a_command_that_is_not_there(run, tmp_path):
    done = run("no-such-command-anywhere")
    assert done.returncode == 127 and "no-such-command-anywhere" in done.stderr
    assert not (tmp_path / "run").exists()
    (tmp_path / "plain").write_text("text")
    assert run(str(tmp_path / "plain")).returncode == 126
    done = run("no-such-command-anywhere", options=["--json"])
    assert done.returncode == 127 and json.loads(done.stdout)["schema"] == "mfu.error/1"


@pytest.mark.parametrize(
    "options",
    [
        ["--dtype", "fp33"],
        ["--peak", "fast"],
        ["--device", "no such gpu"],
        ["--warmup", "-1"],
        ["--model", "/no/config.json"],
    ],
)
def test_misuse_is_refused_before_anything_runs(run, tmp_path, options):
    done = run("touch", str(tmp_path / "ran"), options=options)
    assert done.returncode == 2 and done.stderr.startswith("mfu: ")
    assert not (tmp_path / "ran").exists()


def test_no_command(tmp_path):
    done = subprocess.run([MFU, "run"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "mfu run -- python train.py" in done.stderr


CATCHER = """
import signal, sys, time
def caught(number, frame):
    print("caught", signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM: sys.exit(7)
for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP"):
    signal.signal(getattr(signal, name), caught)
print("ready", flush=True)
while True: time.sleep(0.05)
"""


def test_signals_sent_to_us_reach_the_command(tmp_path):
    program = subprocess.Popen(
        [MFU, "run", "--dir", str(tmp_path / "run"), "--", sys.executable, "-c", CATCHER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout.readline() == "ready\n"
    for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):
        program.send_signal(number)
        assert program.stdout.readline() == f"caught {number.name}\n"
    program.send_signal(signal.SIGTERM)
    rest, _ = program.communicate(timeout=60)
    assert rest == "caught SIGTERM\n" and program.returncode == 7


def test_stopping_and_going_on(tmp_path):
    def state(pid):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def wait_for(pid, wanted):
        for _ in range(400):
            if state(pid) in wanted:
                return True
            time.sleep(0.05)
        return False

    program = subprocess.Popen(
        [
            MFU,
            "run",
            "--dir",
            str(tmp_path / "run"),
            "--",
            sys.executable,
            "-c",
            "import os, time; print(os.getpid(), flush=True); time.sleep(600)",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    command = int(program.stdout.readline())
    program.send_signal(signal.SIGTSTP)
    assert wait_for(program.pid, "T")
    # SIGTSTP does not stop an orphaned group (no shell watches it), so it stops only us.
    program.send_signal(signal.SIGCONT)
    assert wait_for(program.pid, "SR") and wait_for(command, "SR")
    program.send_signal(signal.SIGTERM)
    assert program.wait(timeout=60) == 128 + signal.SIGTERM


def on_terminal(words, typed=b"", after=b"", cwd=None):
    """Returns what a terminal shows, and the exit status. `typed` is sent once `after` was seen."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvp(words[0], words)
    shown = b""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                more = os.read(terminal, 65536)
            except OSError:
                break
            if not more:
                break
            shown += more
        if typed and after in shown:
            os.write(terminal, typed)
            typed = b""
    _, status = os.waitpid(pid, 0)
    return shown, os.waitstatus_to_exitcode(status)


def test_the_command_has_the_terminal(tmp_path):
    program = (
        "import os, sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty(), os.tcgetpgrp(0) =="
        " os.getpgrp()); print('got', input('name? '))"
    )
    shown, status = on_terminal(
        [MFU, "run", "--dir", "run", "--", sys.executable, "-c", program], b"ada\n", b"name? ", tmp_path
    )
    assert b"True True True True" in shown and b"got ada" in shown and status == 0


def test_interrupt_from_the_terminal_reaches_the_command_once(tmp_path):
    program = (
        "import signal, time, sys\nseen = []\nsignal.signal(signal.SIGINT, lambda *a: seen.append(1))\nprint('ready',"
        " flush=True)\nfor _ in range(40):\n    time.sleep(0.05)\nprint('interrupts', len(seen)); sys.exit(9)"
    )
    shown, status = on_terminal(
        [MFU, "run", "--dir", "run", "--", sys.executable, "-c", program], b"\x03", b"ready", tmp_path
    )
    assert b"interrupts 1" in shown and status == 9


def test_no_live_line_in_a_pipe(run):
    assert "\r" not in run("sleep", "1.3").stderr


def test_a_users_own_sitecustomize_still_runs(run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sitecustomize.py").write_text("import sys; sys.mine = 1\n")
    done = run(
        sys.executable, "-c", "import sys; print(sys.mine)", env=dict(os.environ, PYTHONPATH=str(tmp_path / "mine"))
    )
    assert done.stdout == "1\n"


def test_directories_that_cannot_be_written_do_not_stop_the_command(tmp_path):
    done = subprocess.run(
        [MFU, "run", "--dir", "/proc/mfu/run", "--", "echo", "hello"],
        capture_output=True,
        text=True,
        env=dict(os.environ, TMPDIR=str(tmp_path)),
    )
    assert done.returncode == 0 and done.stdout == "hello\n" and "/proc/mfu/run" in done.stderr


def test_an_earlier_run_in_the_directory_is_kept(run, tmp_path):
    run("true"), run("false")
    assert summary(tmp_path)["exit_status"] == 1
    assert json.loads((tmp_path / "run" / "earlier-1" / "summary.json").read_text())["exit_status"] == 0


def test_a_bug_of_ours_has_a_status_and_a_sentence_of_its_own():
    """An assertion that fails, or an exception that nobody catches, ends in SIGABRT."""
    waiting = subprocess.Popen([MFU, "explain", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "pipe" not in Path(f"/proc/{waiting.pid}/wchan").read_text():
        time.sleep(0.01)
        assert waiting.poll() is None
    waiting.send_signal(signal.SIGABRT)
    _, told = waiting.communicate(timeout=60)
    assert waiting.returncode == 70
    assert "this is a bug in mfu" in told
