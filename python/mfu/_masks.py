"""Numbers that a device has not computed yet. They are requested when the step is logged and read when they are
ready. The loop never waits for them."""

import sys
from typing import Any, Callable, List, Optional, Tuple

Sums = Tuple[int, int, int, int]  # rows with tokens, tokens, squares, width


def on_device(value: Any) -> bool:
    """Whether reading this value would wait for a device."""
    device = getattr(value, "device", None)
    return getattr(device, "type", "cpu") not in ("cpu", "meta") and hasattr(value, "to")


class Later:
    """A tensor that is being copied to the host. `read` makes plain numbers of the copy, which is made in the order of
    the device's work.

    ready() and value() never wait. Only the thread that logs may call them, because a question from another thread
    breaks the capture of a CUDA graph. A device without events cannot be asked. Then `unread` is true, and one of the
    monitor's threads calls read(), which may wait.
    """

    unread = False

    def __init__(self, tensor: Any, read: Callable[[Any], Any]) -> None:
        import torch

        self._read, self._device = read, tensor.device.type
        tensor = tensor.detach()
        if self._capturing():
            raise ValueError("a CUDA graph is being captured: its numbers exist only when it is replayed")
        events = getattr(getattr(torch, self._device, None), "Event", None)
        self._event: Optional[Any] = events() if events is not None else None
        if self._event is None:
            self._host, self.unread = tensor.clone(), True  # the loop may overwrite its tensor before this is read
            return
        if self._device == "cuda":
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host.copy_(tensor, non_blocking=True)
        else:
            self._host = tensor.to("cpu", non_blocking=True, copy=True)
        self._event.record()

    def _capturing(self) -> bool:
        torch = sys.modules["torch"]
        return self._device == "cuda" and bool(torch.cuda.is_current_stream_capturing())

    def ready(self) -> bool:
        return not self.unread if self._event is None else not self._capturing() and bool(self._event.query())

    def read(self) -> None:
        self._host, self.unread = self._host.cpu(), False

    def value(self) -> Any:
        return self._read(self._host.cpu())


def _float_of(tensor: Any) -> float:
    return float(tensor.item())


def number(value: Any) -> Any:
    """A float, or a Later if a device has not computed it yet. Raises TypeError or ValueError if it is no number."""
    if on_device(value):
        if value.numel() != 1:
            raise ValueError(f"{value.numel()} numbers where one was expected")
        return Later(value, _float_of)
    return float(value.detach() if getattr(value, "requires_grad", False) else value)


def sums(mask: Any) -> Any:
    """The sums of a mask's rows, or a Later if the mask is on a device."""
    from . import _core

    if on_device(mask):
        if mask.dim() != 2:
            raise ValueError(f"a mask of {mask.dim()} dimensions: one row a sequence, one column a token was expected")
        width = int(mask.shape[1])
        return Later((mask != 0).sum(1), lambda rows: row_sums(rows.tolist(), width))
    if isinstance(mask, (list, tuple)):
        return row_sums([sum(1 for token in row if token) for row in mask], max((len(row) for row in mask), default=0))
    torch, given = sys.modules.get("torch"), mask
    if torch is not None and isinstance(mask, torch.Tensor):
        # The conversion is done here. If native code did it, the tensor would run Python, and an exception of a signal
        # handler in it would be lost.
        given = torch.utils.dlpack.to_dlpack(mask.detach())
    try:
        rows, tokens, squares, width = _core.mask_sums(given)
    except TypeError:
        raise ValueError(f"a mask of type {type(mask).__name__}: a tensor of one row a sequence was expected") from None
    return rows, tokens, squares, width


def row_sums(lengths: List[int], width: int = 0) -> Sums:
    """The sums for given lengths of sequences."""
    held = [int(length) for length in lengths if length]
    if any(length < 0 for length in held):
        raise ValueError("a length below 0")
    return len(held), sum(held), sum(length * length for length in held), width
