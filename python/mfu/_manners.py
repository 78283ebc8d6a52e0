"""Warnings that never raise, and exceptions that belong to the program and must pass through our code."""

import errno
import fcntl
import os
import signal
import sys
import threading
import types
import warnings
from typing import Any, Iterator, Optional


def short(value: Any) -> str:
    """A short text of a value for messages, even if its repr raises."""
    try:
        text = repr(value)
    except Exception as error:
        let_through(error)
        text = f"<{type(value).__name__}>"
    return text if len(text) < 60 else text[:57] + "..."


def said(error: BaseException) -> str:
    """The message of an error, or its class if it has none."""
    try:
        return str(error) or type(error).__name__
    except Exception as worse:
        let_through(worse)
        return type(error).__name__


def _heard() -> bool:
    """Whether standard error can be written to. Text for a closed one stays in its buffer, and Python then ends with
    status 120."""
    try:
        return fcntl.fcntl(sys.stderr.fileno(), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError as error:
        return error.errno != errno.EBADF
    except Exception as error:  # an object in its place, as notebooks have
        let_through(error)
    return True


def tell(message: str, level: int = 3) -> None:
    """Warns. It never raises, whatever the warning filters and standard error are."""
    try:
        if not _heard():
            return
        warnings.warn(message, RuntimeWarning, stacklevel=level)
    except Exception as error:  # a filter made the warning an error, or standard error is closed
        let_through(error)
        try:
            if isinstance(error, Warning) and sys.stderr is not None:
                print(message, file=sys.stderr)
        except Exception as worse:
            let_through(worse)


def let_through(error: BaseException) -> None:
    """Raises what a signal handler of the program raised while our code ran: a time limit, a dead data-loader worker,
    a launcher's request to end. It belongs to the program. Python runs handlers on the main thread, between any two
    instructions, ours among them."""
    if isinstance(error, Exception) and threading.current_thread() is threading.main_thread() and _of_handler(error):
        raise error


def _of_handler(error: BaseException) -> bool:
    handlers = {code for number in signal.valid_signals() for code in _codes(signal.getsignal(number))}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _codes(handler: Any) -> Iterator[types.CodeType]:
    """The code objects that run if this is a signal handler: those of a function, a method, a partial, or an object
    that can be called."""
    for _ in range(8):
        code: Optional[Any] = getattr(handler, "__code__", None)
        if isinstance(code, types.CodeType):
            yield code
            return
        inner = getattr(handler, "__func__", None) or getattr(handler, "func", None)
        if (
            inner is None
            and callable(handler)
            and not isinstance(handler, (types.BuiltinFunctionType, signal.Handlers))
        ):
            inner = getattr(type(handler), "__call__", None)
        if inner is None or inner is handler:
            return
        handler = inner
