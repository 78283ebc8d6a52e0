"""Times of an asynchronous device: by its own events if they were asked for. Otherwise the time is labelled, and no
advice is based on it."""

import pytest
import torch
from programs import STEPS
from test_run import by_index, run  # noqa: F401: the fixture


def test_steps_are_timed_by_the_device_where_nobody_reads_anything(run):  # noqa: F811
    report = run("slow")
    # The device takes 50 ms for a step; the host launches it in a few.
    assert report["timing"] == "device" and report["step_ns"]["median"] >= 50e6
    assert by_index(report)[0]["mfu"] == pytest.approx(report["mfu"]) and report["steps"] == STEPS


def test_steps_of_a_loop_that_reads_each_loss_are_the_same(run):  # noqa: F811
    report = run("slow_and_read")
    assert report["timing"] == "device" and report["step_ns"]["median"] >= 50e6


def test_no_share_and_no_advice_comes_from_the_hosts_clock(run):  # noqa: F811
    report = run("slow")
    assert report["communication_fraction"] is None and report["checkpoint_fraction"] is None
    assert 0 <= report["optimizer_fraction"] < 0.2 and report["by_rank"][0]["own_ns"] is None
    assert not {each["cause"] for each in report["findings"]} & {"host", "threads", "communication", "implementation"}


def test_passes_have_no_mfu_by_the_time_of_their_launches(run):  # noqa: F811
    """The host launches a pass in a few milliseconds of the 50 that the device takes: by its clock MFU was ten times
    that of the run."""
    report = run("slow")
    trained = [each for each in report["phases"] if each["phase"] == "train"]
    assert [each["model_flop"] for each in trained] == [report["model_flop"]] and report["mfu"] > 0
    assert [each["mfu"] for each in trained + report["shares"]] == [None] * (len(report["shares"]) + 1)
    assert "of the time" not in report["text"]
    if report["shares"]:
        assert "of the host's time" in report["text"]


def test_how_long_products_take_is_not_claimed(run):  # noqa: F811
    """The device has products to do for a hundredth of the step. Advice on their data type says what was measured."""
    report = run("slow")
    (finding,) = [each for each in report["findings"] if each["id"] == "precision"]
    assert "up to" in finding["title"] and "not measured" in finding["title"]


def test_waiting_for_data_is_what_the_device_saw_of_it(run):  # noqa: F811
    hidden, seen = run("loader_hidden"), run("loader_slow")
    assert hidden["data_wait_fraction"] < 0.2 and seen["data_wait_fraction"] > 0.5


def test_a_device_without_events_is_timed_by_the_host_and_that_is_said(run):  # noqa: F811
    report = run("slow", LATE_EVENTS="0")
    assert report["timing"] == "host" and report["optimizer_fraction"] is None and report["findings"] == []
    assert any("host" in note for note in report["notes"])
    # The launches took a few of 50 ms: who reads only the first lines must see it.
    assert "by the host's clock" in report["text"].split("peak")[0] and "launched in" in report["text"]


def test_nothing_waits_and_nothing_is_asked_from_another_thread_or_in_a_capture(late):
    from mfu import _observer

    _observer.start(region_folder="")
    layer = torch.nn.Linear(8, 8).to("late")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step():
        layer(torch.ones(4, 8, device="late")).sum().backward()
        optimizer.step()

    step()
    late.synchronize()
    before = late.counts()
    for _ in range(3):
        late.sleep(0.05)
        step()
    after = late.counts()
    assert after["host_waits"] == before["host_waits"] and after["foreign_queries"] == before["foreign_queries"]
    assert after["queries"] > before["queries"]
    with late.capturing():
        step()
    assert late.capture_breaks() == 0
    _observer.stop()
