"""mfu.explain gives the command's answer key for key, its tables as columns, and its errors as exceptions."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mfu

ROOT = Path(__file__).resolve().parents[3]
TRACE = ROOT / "tests" / "golden" / "kineto_small.json"


def command(*arguments):
    binary = Path(mfu.__file__).resolve().parent / "bin" / "mfu"
    if not binary.exists():
        binary = Path(mfu.__path__[0]) / "bin" / "mfu"
    if not binary.exists():
        binary = ROOT / "build" / "release" / "mfu"
    return json.loads(
        subprocess.run(
            [binary, "explain", *map(str, arguments), "--json"], capture_output=True, text=True, check=True
        ).stdout
    )


def test_is_what_the_command_says():
    assert mfu.explain(TRACE) == command(TRACE)
    assert mfu.explain([TRACE], window="all", peak=1e15) == command(TRACE, "--window", "all", "--peak", "1e15")
    assert mfu.explain(TRACE, device="NVIDIA H100 80GB HBM3", dtype="fp16") == command(
        TRACE, "--device", "NVIDIA H100 80GB HBM3", "--dtype", "fp16"
    )


def test_tables_are_columns_of_equal_length():
    told = mfu.explain(TRACE)
    for name in ("ledger", "operators", "kernels", "idle", "gaps", "steps"):
        table = getattr(told, name)
        assert table and len({len(column) for column in table.values()}) == 1, name
        assert {"rank", "device_id"} <= set(table), name
    assert sum(told.ledger["duration_ns"]) == told.ranks[0].window.duration_ns
    assert told.operators["name"] == ["aten::addmm"] and told.operators["flop"] == [2147483648]
    lines = [told.steps[line] for line in dict.fromkeys(told.ledger["line"])]
    assert [sum(row) for row in zip(*lines)] == [
        end - start for start, end in zip(told.steps["start_ns"], told.steps["end_ns"])
    ]
    assert told.mfu == told.summary.mfu and told.findings[0].id == "synchronization"


def test_findings_and_notes_have_codes_and_notes_name_python_s_options(tmp_path):
    path = tmp_path / "unknown.json"
    path.write_text(TRACE.read_text().replace("NVIDIA A100-SXM4-80GB", "Flux Capacitor"))
    told, typed = mfu.explain(path), command(path)
    place = [note["code"] for note in told.note_codes].index("device_not_known")
    assert told.note_codes[place]["values"] == {"device": "Flux Capacitor"} == typed["note_codes"][place]["values"]
    assert "device=" in told.notes[place] and "--" not in told.notes[place] and "--device NAME" in typed["notes"][place]
    for finding in told.findings:
        assert finding.code == finding.id and finding["values"]["fraction"] > 0 and finding.title and finding.fixes


def test_writes_the_page(tmp_path):
    mfu.explain(TRACE, html=tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_says_what_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.json"):
        mfu.explain(tmp_path / "nothing.json")
    (tmp_path / "empty.json").write_text("{}")
    with pytest.raises(mfu.Malformed):
        mfu.explain(tmp_path / "empty.json")
    with pytest.raises(mfu.InvalidArgument, match="window"):
        mfu.explain(TRACE, window="yesterday")
    with pytest.raises(mfu.NotFound):
        mfu.explain(TRACE, device="NVIDIA H1000")
    for bad in ([], ["-"]):
        with pytest.raises(mfu.InvalidArgument):
            mfu.explain(bad)
    with pytest.raises(mfu.InvalidArgument, match="peak"):
        mfu.explain(TRACE, peak=float("nan"))


def test_ctrl_c_ends_it(tmp_path):
    fifo = tmp_path / "trace.json"
    os.mkfifo(fifo)
    # A shell's background job ignores SIGINT, and its children inherit that.
    program = (
        "import mfu, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); print('ready', flush=True);"
        " mfu.explain(sys.argv[1])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, fifo], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    pipe = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)  # opens at once, with or without a reader
    os.write(
        pipe,
        b'{"traceEvents": ['
        + b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1},' * 20,
    )
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    for _ in range(600):  # a reader that waits for bytes notices the request when the next ones come
        if process.poll() is not None:
            break
        try:
            os.write(pipe, b" " * 4096)
        except BlockingIOError:
            pass
        time.sleep(0.05)
    os.close(pipe)
    process.kill()
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]
