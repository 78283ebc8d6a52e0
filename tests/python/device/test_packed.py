"""Packed attention through the dispatcher with its offsets in a device's memory: it is counted when the offsets have
arrived, and nobody waits for them."""

import json
import os
import subprocess
import sys

import packed
import pytest
import torch
from packed import BACKWARD, FORWARD, HEADS, OFFSETS, STEPS, WIDTH
from test_run import HERE, MFU


@pytest.fixture(scope="module")
def observer(late):
    from mfu import _observer

    _observer.start(region_folder="")
    yield _observer
    _observer.stop()


@pytest.fixture(autouse=True)
def drained(late, observer):
    """Counts what an earlier test left pending, so that it does not appear in this one."""
    late.synchronize()
    observer.library().last_step()


@pytest.fixture
def count(observer):
    def counted(function):
        observer.phases(settle=True)
        before = observer.totals()
        function()
        return observer.totals() - before

    return counted


def offsets_on(device, numbers=OFFSETS, dtype=torch.int32):
    return torch.tensor(numbers, dtype=dtype).to(device)


def query(device, tokens=OFFSETS[-1]):
    return torch.randn(tokens, HEADS, WIDTH).to(device)


def settled(late, q, offsets):
    """Waits until the device is done. The next packed call on this thread then counts what has arrived, and is pending
    itself."""
    late.synchronize()
    return lambda: packed.forward(q, offsets)


def test_it_counts_once_its_offsets_have_arrived_and_the_host_waits_for_nothing(late, count):
    q, offsets = query("late"), offsets_on("late")
    late.synchronize()
    waits = late.counts()["host_waits"]
    late.sleep(0.2)
    first = count(lambda: packed.forward(q, offsets))
    assert first.hardware_flop == 0 and not first.uncounted() and late.counts()["host_waits"] == waits
    assert count(settled(late, q, offsets)).hardware_flop == FORWARD
    # this counts the call before; each call counts once
    assert count(settled(late, q, offsets)).hardware_flop == FORWARD
    late.synchronize()


def test_a_region_that_is_counted_waits_for_its_own_lengths_and_for_no_others(late, observer):
    import mfu

    q, offsets = query("late"), offsets_on("late")
    late.synchronize()
    packed.forward(q, offsets)  # before the region
    late.sleep(0.05)
    with mfu.count() as counted:
        packed.forward(q, offsets)
        late.sleep(0.05)
        packed.forward(q, offsets)
    assert counted.hardware_flop == 2 * FORWARD and not counted.uncounted


def test_offsets_that_change_in_place_are_read_again(late, count):
    q, offsets = query("late"), offsets_on("late")
    count(settled(late, q, offsets))
    packed.forward(q, offsets)
    offsets.copy_(torch.tensor([0, 12, 12, 12], dtype=torch.int32))
    late.synchronize()
    count(lambda: packed.forward(q, offsets))
    late.synchronize()
    assert count(lambda: packed.forward(q, offsets)).hardware_flop == 4 * (12 * 13 // 2) * HEADS * WIDTH
    late.synchronize()
    count(lambda: packed.forward(q, offsets))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_many_sequences_in_host_memory_count_at_once(count, dtype):
    numbers = list(range(0, 303, 3))
    counted = count(lambda: packed.forward(query("cpu", 300), offsets_on("cpu", numbers, dtype)))
    assert counted.hardware_flop == 4 * (100 * 6) * HEADS * WIDTH and not counted.uncounted()


def test_lengths_in_use_and_pages_are_named(count):
    used = torch.tensor([1, 2, 3], dtype=torch.int32)
    for more in ({"seqused_k": used}, {"block_table": used}, {"leftpad_k": used}):
        counted = count(lambda: packed.forward(query("cpu"), offsets_on("cpu"), **more))
        assert counted.hardware_flop == 0 and "how many keys it uses" in counted.uncounted()[0]["reason"]


def test_nothing_is_copied_or_asked_while_a_graph_is_captured(late, count):
    q, offsets = query("late"), offsets_on("late")
    late.synchronize()
    before = late.capture_breaks()
    with late.capturing():
        named = count(lambda: packed.forward(q, offsets))
    assert late.capture_breaks() == before
    assert named.hardware_flop == 0 and named.uncounted()[0]["operator"] == "flash_attn::_flash_attn_varlen_forward"


@pytest.fixture
def cuda(observer, monkeypatch):
    """flash_attn_2_cuda of version 2.6, which has no operator around it."""
    import importlib

    from mfu._observer import libraries
    from mfu._observer.libraries import lengths

    monkeypatch.syspath_prepend(str(HERE.parent / "libraries" / "standins"))
    libraries.install(observer.library())
    yield importlib.import_module("flash_attn").flash_attn_2_cuda, lengths
    for name in ("flash_attn", "flash_attn_2_cuda"):
        sys.modules.pop(name, None)


def varlen(cuda, q, offsets):
    rest = (None, None, None, None, 5, 5, 0.0, 0.1, False, True, -1, -1, 0.0, False, None)
    return lambda: cuda.varlen_fwd(q, q, q, None, offsets, offsets, *rest)


def test_a_wrapped_library_reads_offsets_of_a_device_without_waiting(late, count, cuda):
    cuda, lengths = cuda
    call = varlen(cuda, query("late"), offsets_on("late"))
    late.synchronize()
    waits = late.counts()["host_waits"]
    late.sleep(0.2)
    first = count(call)
    assert first.hardware_flop == 0 and not first.uncounted() and late.counts()["host_waits"] == waits
    late.synchronize()
    assert count(lengths.settle).hardware_flop == FORWARD


def test_a_wrapped_library_in_a_capture_asks_and_copies_nothing(late, count, cuda):
    cuda, lengths = cuda
    call = varlen(cuda, query("late"), offsets_on("late"))
    late.synchronize()
    call()
    before = late.capture_breaks()
    with late.capturing():
        named = count(call)
        count(lengths.settle)
    assert late.capture_breaks() == before
    assert named.hardware_flop == 0 and "captured" in named.uncounted()[0]["reason"]
    late.synchronize()
    assert count(lengths.settle).hardware_flop == FORWARD  # counts the call before it


def test_a_wrapped_function_inside_a_counted_operator_is_not_counted_again(late, count, cuda):
    cuda, lengths = cuda
    q, offsets = query("late"), offsets_on("late")
    inner = varlen(cuda, q, offsets)
    forward = packed._forward
    packed.inside.append(inner)  # called as the operator of 2.7 calls it
    try:
        packed.forward(q, offsets)
    finally:
        packed.inside.clear()
    late.synchronize()
    assert count(lambda: packed.forward(q, offsets)).hardware_flop == FORWARD
    assert count(lengths.settle).hardware_flop == 0 and forward is packed._forward
    late.synchronize()


def test_a_training_run_counts_all_of_it(late, tmp_path):
    made = subprocess.run(
        [
            MFU,
            "run",
            "--json-file",
            tmp_path / "run.json",
            "--dir",
            tmp_path / "run",
            "--",
            sys.executable,
            HERE / "packed.py",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "LATE_NAMES": "NVIDIA H100 80GB HBM3"},
    )
    assert made.returncode == 0, made.stderr
    report = json.loads((tmp_path / "run.json").read_text())
    found = report["flop_by_operator"]
    assert found["flash_attn::_flash_attn_varlen_forward"] == STEPS * 2 * FORWARD
    assert found["flash_attn::_flash_attn_varlen_backward"] == STEPS * 2 * BACKWARD
    assert report["coverage"]["complete"] is True and not report["coverage"]["uncounted"]
    by_device = {each["index"]: each["hardware_flop"] for each in report["by_device"] if "hardware_flop" in each}
    assert not by_device or by_device[0] == report["hardware_flop"]
