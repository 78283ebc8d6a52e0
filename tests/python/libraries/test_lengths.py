"""Lengths in device memory are read when they have arrived; nobody waits for them. The device is a stand-in."""

import pytest
import torch


class Event:
    def __init__(self):
        self.arrived = False

    def query(self):
        return self.arrived


@pytest.fixture
def late(standin, monkeypatch):
    """flash_attn_2_cuda, and the events that follow its copies."""
    _, cuda = standin("flash_attn", "flash_attn_2_cuda")
    from mfu import _observer
    from mfu._observer.libraries import lengths

    events = []
    monkeypatch.setattr(lengths, "on_host", lambda tensor: False)
    monkeypatch.setattr(lengths, "_can_pin", lambda tensor: False)
    monkeypatch.setattr(_observer.library(), "may_ask", lambda device: 1)  # of the stand-in device, which is the CPU
    monkeypatch.setattr(lengths, "_event", lambda tensor: events.append(Event()) or events[-1])
    lengths._copies.clear()
    yield cuda, events, lengths
    for calls in lengths._all:
        calls.clear()


def packed(cuda, offsets):
    q = torch.randn(7, 6, 8, dtype=torch.bfloat16)
    rest = (None, None, None, None, 4, 4, 0.0, 0.1, False, True, -1, -1, 0.0, False, None)
    return lambda: cuda.varlen_fwd(q, q, q, None, offsets, offsets, *rest)


def test_packed_attention_counts_once_its_lengths_have_arrived(late, count):
    cuda, events, lengths = late
    call = packed(cuda, torch.tensor([0, 3, 7], dtype=torch.int32))
    assert count(call).hardware_flop == 0 and len(events) == 1
    assert count(call).hardware_flop == 0 and len(events) == 1  # the next layer uses the same copy
    events[0].arrived = True
    assert count(lengths.settle).hardware_flop == 2 * 4 * 16 * 6 * 8
    assert count(lengths.settle).hardware_flop == 0


def test_the_end_of_a_step_counts_what_has_arrived(late, count):
    cuda, events, lengths = late
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    packed(cuda, torch.tensor([0, 3, 7], dtype=torch.int32))()
    events[0].arrived = True
    assert count(optimizer.step).hardware_flop == 4 * 16 * 6 * 8


def test_what_never_arrives_is_named_and_not_waited_for(late, count):
    cuda, events, lengths = late
    packed(cuda, torch.tensor([0, 3, 7], dtype=torch.int32))()
    (named,) = count(lengths.finish).uncounted()
    assert named["operator"] == "flash_attn_2::varlen_fwd" and "too late" in named["reason"]
