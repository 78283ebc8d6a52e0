"""The library's errors as exceptions: one class per code. Each is also the built-in exception that fits."""


class Error(Exception):
    """What input can cause. The message says what failed, where, and what to try next; `code` is that of mfu.error/1.
    """

    code = "invalid_argument"


class InvalidArgument(Error, ValueError):
    """A value that makes no sense."""

    code = "invalid_argument"


class NotFound(Error, LookupError):
    """An unknown name. The message lists the nearest ones."""

    code = "not_found"


class Malformed(Error, ValueError):
    """A file or text that is not what it should be."""

    code = "malformed"


class Unsupported(Error, ValueError):
    """Something that mfu does not know yet."""

    code = "unsupported"


class FileError(Error, OSError):
    """A file that cannot be read or written."""

    code = "io"


class FileMissing(NotFound, FileNotFoundError):
    """A file or folder that is not there."""


_CLASSES = {each.code: each for each in (InvalidArgument, NotFound, Malformed, Unsupported, FileError)}


def exception_of(code: str, message: str) -> Error:
    """Used by the native module."""
    return _CLASSES[code](message)


def file_error(error: Error) -> Error:
    """The same error, as FileMissing if the reason is a missing file."""
    return FileMissing(str(error)) if isinstance(error, NotFound) and "No such file" in str(error) else error
