"""Lengths of packed sequences. They are read at once if they are in host memory, otherwise through a copy that nobody
waits for.

If the offsets are on a device, they are copied to pinned memory after the work that is already queued, with an event
after the copy. The same thread later checks the event without waiting: at its next call, and when a step ends. What has
arrived then counts in the current pass, with its mark of recomputation. What has not arrived when the program ends is
listed as uncounted.
"""

import atexit
import threading

from .wrapping import Later, device_of, is_fake

MOST = 4096  # waiting calls of one thread
_waiting = threading.local()


def differences(offsets):
    values = offsets.tolist() if hasattr(offsets, "tolist") else list(offsets)
    return [after - before for before, after in zip(values, values[1:])]


def by_lengths(offsets, work):
    """Calls work(lengths of queries, lengths of keys), from offsets [batch + 1] of both."""
    return Later(tuple(offsets), lambda q, k: work(differences(q), differences(k)))


def by_values(tensors, work):
    """Calls work(values of each tensor), with the values as lists."""
    return Later(tuple(tensors), lambda *values: work(*(each.tolist() for each in values)))


class Side:
    """How long the queries or keys of each sequence are: what `used` says, or else the offsets. Without both, all have
    the same length."""

    __slots__ = ("offsets", "used", "length", "left_out")

    def __init__(self, length, offsets=None, used=None, left_out=None):
        self.length, self.offsets, self.used, self.left_out = length, offsets, used, left_out

    def tensors(self):
        known = self.used if self.used is not None else self.offsets
        return [each for each in (known, self.left_out) if each is not None]

    def read(self, values, batch):
        values = list(values)
        if self.used is not None:
            lengths = values.pop(0).tolist()
        elif self.offsets is not None:
            lengths = differences(values.pop(0))
        else:
            lengths = [self.length] * batch
        if self.left_out is not None:
            lengths = [length - less for length, less in zip(lengths, values.pop(0).tolist())]
        return lengths


def by_sides(batch, queries, keys, work):
    """Calls work(lengths of queries, lengths of keys) for two sides; at once if no tensor needs to be read."""
    first, second = queries.tensors(), keys.tensors()
    if not first and not second:
        return work([queries.length] * batch, [keys.length] * batch)

    def read(*values):
        return work(queries.read(values[: len(first)], batch), keys.read(values[len(first) :], batch))

    # It keeps no tensor of the call alive: what it needs is copied.
    queries, keys = _without(queries), _without(keys)
    return Later((*first, *second), read)


def _without(side):
    there = lambda value: True if value is not None else None  # noqa: E731
    return Side(side.length, there(side.offsets), there(side.used), there(side.left_out))


def on_host(tensor):
    return getattr(getattr(tensor, "device", None), "type", "cpu") == "cpu"


def read(counter, later):
    """Counts what `later` holds, now or when its numbers have arrived."""
    again = bool(counter.library.runs_again())
    if not again:
        settle()
    if any(is_fake(tensor) for tensor in later.tensors):
        return
    if all(on_host(tensor) for tensor in later.tensors):
        counter.count(later.work(*later.tensors))
        return
    pending = _pending()
    device = device_of(next(tensor for tensor in later.tensors if not on_host(tensor)))
    if not counter.library.may_ask(device):
        # A copy and its event would become part of the captured graph, or break the capture.
        counter.library.add_uncounted(counter.operator.encode(), b"captured, with lengths that lie on the device")
        return
    if len(pending) >= MOST:
        counter.library.add_uncounted(counter.operator.encode(), b"its lengths lie on the device and came too late")
        return
    pending.append((counter, later.work, *_copied(counter.library, later.tensors), again, device))


def _pending():
    found = getattr(_waiting, "calls", None)
    if found is None:
        if not _all:
            atexit.register(finish)
        found = _waiting.calls = []
        _all.append(found)
    return found


_all = []  # the pending calls of every thread, for the end of the program
_copies = {}  # the offsets that were copied last, because the next layer often has the same ones


def _copied(library, tensors):
    """Copies in pinned memory, and the event after them. Layers share their offsets, so one copy serves them all."""
    import torch

    key = tuple(
        (tensor.data_ptr(), tensor._version, tuple(tensor.shape)) for tensor in tensors if not on_host(tensor)
    )
    found = _copies.get("last")
    if found is not None and found[0] == key and found[1] == threading.get_ident():
        return found[2], found[3]
    library.pause(1)
    try:
        copies = []
        for tensor in tensors:
            source = tensor.detach()
            if not on_host(source):
                target = torch.empty(source.shape, dtype=source.dtype, device="cpu", pin_memory=_can_pin(source))
                source = target.copy_(source, non_blocking=True)
            copies.append(source)
        event = _event(next(tensor for tensor in tensors if not on_host(tensor)))
    finally:
        library.pause(-1)
    # The offsets are kept too, so that no other tensor gets their memory and with it the same key.
    _copies["last"] = (key, threading.get_ident(), tuple(copies), event, tensors)
    return tuple(copies), event


def _can_pin(tensor):
    return tensor.device.type in ("cuda", "xpu")


def _event(tensor):
    import torch

    module = getattr(torch, tensor.device.type, None)
    kind = getattr(module, "Event", None) or torch.Event
    event = kind()
    event.record()
    return event


def finish():
    """Called when the program has ended. What has arrived is counted, the rest is listed."""
    for calls in _all:
        settle(calls, True)


def settle(calls=None, last=False):
    """Counts what has arrived for this thread."""
    calls = getattr(_waiting, "calls", None) if calls is None else calls
    if not calls:
        return
    while calls:
        counter, work, values, event, again, device = calls[0]
        if not counter.library.may_ask(device) or not event.query():
            if not last:
                return
            counter.library.add_uncounted(
                counter.operator.encode(), b"its lengths lie on the device and came too late"
            )
            calls.pop(0)
            continue
        calls.pop(0)
        try:
            if again:
                counter.library.recompute(1)
            try:
                counter.count(work(*values))
            finally:
                if again:
                    counter.library.recompute(-1)
        except Exception:  # must not reach the program
            counter.library.add_uncounted(counter.operator.encode(), b"its lengths were not understood")
