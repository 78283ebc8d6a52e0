"""Finds Functions that compute without the dispatcher, by the results that they return.

In the first passes the forward of a Function is checked (passes.py calls `begin`). There are two findings:

    A contradiction. No operator was counted in the Function, and each column of its result depends only on x · w, where
    x is an input and w a row of a matrix that it was given. Then the product was computed here, whatever activation
    followed.

    A doubt. Its result is in memory that no operator of the dispatcher wrote (src/torch/writes.h), that torch did not
    allocate (numpy, DLPack), or into which an operator only moved numbers that came from Python, and it was given a
    trained matrix, or a query, keys and values. It may have multiplied, and nobody knows how much. So the coverage is
    not known, and the summary names the Function.
"""

import threading

from . import binding as types

MOST_LOOKS = 6  # times that one Function is checked
MOST_ROWS, FEWEST_ROWS = 64, 24  # rows of a result that are compared
FEWEST_INNER = 4  # numbers in x and w. If there are fewer, even their distance is nearly a function of x · w
MOST_WAY = 2.0  # how far an activation goes up and down in total, in ranges of its values

_looks = {}
_doubted = set()
_watching = []  # each Seen that watches writes now
wrapped_calls = [0]  # calls of watched libraries, which count what they compute


class Seen:
    """What was counted, named and written since this object was made, in all threads, because another thread may do the
    work."""

    def __init__(self, library, whole_step=False):
        self.library, self.open, self.thread = library, True, threading.get_ident()
        self.before, self.after, self.whole_step = self._counts(), None, whole_step
        library.watch_writes(1)
        if not whole_step:  # it is not abandoned where a backward begins
            _watching.append(self)

    def _counts(self):
        if not self.library.counting():
            return None
        totals, thread = types.Totals(), types.Thread()
        self.library.read_totals(totals)
        self.library.read_thread(thread)
        flop = totals.hardware_flop_high << 64 | totals.hardware_flop_low
        return totals.calls, totals.uncounted_calls, thread.calls, wrapped_calls[0], flop, thread.hardware_flop

    def known(self):
        """Whether there are two counts to compare. Call it once, when the function has ended."""
        self.after = self._counts()
        return self.before is not None and self.after is not None

    def nothing(self):
        return self.before == self.after

    def named(self):
        return self.before[1] != self.after[1]

    def flop(self):
        return max(self.after[4] - self.before[4], self.after[5] - self.before[5])

    def is_hidden(self, tensor, given):
        """Whether this result was computed without the dispatcher."""
        storage = storage_of(tensor)
        if not storage or any(storage_of(each) == storage for each in given):
            return False
        writer = self.library.writer_of(storage)
        if writer == 3:  # made as zeros: was anything added? A device is not asked, because we would have to wait
            return tensor.device.type == "cpu" and bool((tensor != tensor.reshape(-1)[0]).any())
        if writer == 0:
            return is_outside(tensor, self.library)
        if writer in (2, 4):
            return True
        # In a whole step other threads write too, and data is read that was filled in from outside.
        return not self.whole_step and bool(self.library.writer_of(0))

    def leave(self):
        if self.open:
            self.open = False
            if self in _watching:
                _watching.remove(self)
            self.library.watch_writes(-1)


def leave_abandoned():
    """Ends what was left open by a backward that raised. Called when a backward begins. Inside another backward it does
    nothing."""
    if _watching and getattr(__import__("torch")._C, "_current_graph_task_id", lambda: -1)() == -1:
        for each in [each for each in _watching if each.thread == threading.get_ident()]:
            each.leave()


def storage_of(tensor):
    try:
        return tensor.untyped_storage()._cdata
    except Exception:  # noqa: BLE001: a tensor without storage
        return 0


def is_outside(tensor, library):
    """Whether its memory was allocated by somebody else than torch. Memory that CPU processes share is torch's."""
    storage = storage_of(tensor)
    if not storage or not library.is_outside(storage):
        return False
    return tensor.device.type != "cpu" or not tensor.is_shared()


def begin(library):
    """Called when a Function begins. Returns None if it is not checked."""
    from . import tripwire

    return Seen(library) if tripwire.function_begins() and library.counting() else None


def end(seen, function, result, args):
    """Called with the result of the Function."""
    try:
        key = f"{function.__module__}.{function.__qualname__}"
        if seen.known() and seen.nothing() and _looks.get(key, 0) < MOST_LOOKS:
            _looks[key] = _looks.get(key, 0) + 1
            _judge((function.__name__, str(function.__module__)), result, args, seen)
    finally:
        seen.leave()


def _judge(names, result, args, seen):
    import torch

    given = list(_tensors(args, torch))
    results = [each for each in (result if isinstance(result, (tuple, list)) else (result,)) if _is_plain(each, torch)]
    library = seen.library
    library.pause(1)
    try:
        with torch.no_grad():
            for out in results:
                if any(storage_of(each) == storage_of(out) for each in given):
                    continue
                if _may_multiply(given, out, torch) and seen.is_hidden(out, given):
                    doubt(names, library)
                _prove(names, out.detach(), [each.detach() for each in given], library)
    finally:
        library.pause(-1)


def _tensors(values, torch, depth=3):
    for each in values:
        if _is_plain(each, torch):
            yield each
        elif isinstance(each, torch.nn.Module):
            yield from (one for one in each.parameters() if _is_plain(one, torch))
        elif isinstance(each, (tuple, list)) and depth:
            yield from _tensors(each, torch, depth - 1)


def _is_plain(tensor, torch):
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point() or tensor.dim() < 2:
        return False
    return tensor.layout == torch.strided and tensor.device.type != "meta" and min(tensor.shape) > 0


def fits_elementwise(tensor, out):
    """Whether it can be broadcast to `out`."""
    sizes = zip(reversed(tensor.shape), reversed(out.shape))
    return tensor.dim() <= out.dim() and all(size in (1, other) for size, other in sizes)


def _may_multiply(given, out, torch):
    if len(given) < 2:
        return False
    trained = [each for each in given if each.requires_grad or isinstance(each, torch.nn.Parameter)]
    if any(not fits_elementwise(each, out) for each in trained):
        return True
    # Looks for a query, keys and values. Tensors that are broadcast to the result, such as a rotation, do not count.
    alike = [each for each in given if each.dim() == out.dim() >= 3 and each.shape[-1] == given[0].shape[-1]]
    alike = [each for each in alike if each.shape == out.shape or not fits_elementwise(each, out)]
    return len(alike) >= 3 and out.shape[:-1] == given[0].shape[:-1]


def doubt(names, library):
    name, module = names
    if names not in _doubted and len(_doubted) < 8:
        _doubted.add(names)
        library.fact(b"opaque", f"{name}\t{module}".encode())


def _prove(names, out, given, library):
    from . import tripwire

    rows, n = out.numel() // out.shape[-1], out.shape[-1]
    if rows < FEWEST_ROWS or n < 2:
        return
    for matrix in given:
        if matrix.dim() != 2 or matrix.device != out.device or min(matrix.shape) < 2:
            continue
        for w in (matrix, matrix.t()):
            if w.shape[0] != n or w.shape[1] < FEWEST_INNER:
                continue
            for x in given:
                if x is not matrix and x.shape[-1] == w.shape[1] and x.numel() // x.shape[-1] == rows:
                    sizes = f"{rows} × {w.shape[1]} × {n}"
                    apart = _apart(x.reshape(rows, -1), w, out.reshape(rows, n))
                    return tripwire.told(names, sizes, apart, library)


def _apart(x, w, out):
    """The share of columns of `out` that depend on more than x · w. 9 if that cannot be determined.

    With the rows sorted by x · w, a function of x · w rises and falls only as often as its curve does. Anything else
    jumps at random, by about a third of its range from one row to the next.
    """
    import torch

    rows = torch.linspace(0, len(x) - 1, min(MOST_ROWS, len(x)), device=x.device).long()
    columns = torch.linspace(0, len(w) - 1, min(256, len(w)), device=x.device).long()
    own = x[rows][:, columns].float() if x.shape[1] == len(w) else None
    x, out, w = x[rows], out[rows][:, columns].float(), w[columns]
    z = (x @ w.t().to(x.dtype)).float()
    reach = out.amax(0) - out.amin(0)
    ways = _way(z, out) / reach.clamp_min(1e-30)
    # A row of w with only one large number just selects a number of x, which proves no multiplication.
    size = w.float().norm(dim=1).clamp_min(1e-30)
    live = (reach > 1e-6 * out.abs().amax()) & (w.float().abs().amax(1) / size < 0.95)
    # A column in which only a few numbers differ from the others rises and falls little in any order.
    live &= ((out - out.median(0).values).abs() > 0.02 * reach).float().mean(0) > 0.2
    if own is not None:  # a column that is a function of x itself proves nothing either
        live &= _way(own, out) / reach.clamp_min(1e-30) > MOST_WAY
    share = ((ways > MOST_WAY) & live).sum() / live.sum().clamp_min(1)
    return torch.where(live.sum() >= 2, share, torch.full_like(share, 9.0))


def _way(by, out):
    """How far each column of `out` goes up and down, sorted by `by`."""
    return out.gather(0, by.argsort(0)).diff(dim=0).abs().sum(0)
