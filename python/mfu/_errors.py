"""The library's errors as exceptions: one class a code, each also the built-in one that fits."""


class Error(Exception):
    """What input can cause. The message says what failed, where, and what to try next; `code` is that of mfu.error/1.
    """

    code = "invalid_argument"


class InvalidArgument(Error, ValueError):
    """A value that makes no sense."""

    code = "invalid_argument"


class NotFound(Error, LookupError):
    """A name that nothing has; the message lists the nearest."""

    code = "not_found"


class Malformed(Error, ValueError):
    """A file or text that is not what it should be."""

    code = "malformed"


class Unsupported(Error, ValueError):
    """Something nobody described yet."""

    code = "unsupported"


class FileError(Error, OSError):
    """A file that cannot be read or written."""

    code = "io"


class FileMissing(NotFound, FileNotFoundError):
    """A file or folder that is not there."""


_CLASSES = {each.code: each for each in (InvalidArgument, NotFound, Malformed, Unsupported, FileError)}


def exception_of(code: str, message: str) -> Error:
    """For the native module."""
    return _CLASSES[code](message)


def file_error(error: Error) -> Error:
    """The same error, as FileMissing where the reason is a file that is not there."""
    return FileMissing(str(error)) if isinstance(error, NotFound) and "No such file" in str(error) else error
