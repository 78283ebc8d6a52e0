"""Formulas of the user's: from the file of `mfu run --formulas`, and of mfu.formula()."""

import os

_waiting = []  # given before the library was there
_state = {"library": None}


def begin(library):
    """The library is there: what the launcher read from its file, and what the program said before."""
    if _state["library"] is not None:
        return
    _state["library"] = library
    for record in filter(None, os.environ.get("MFU_FORMULAS", "").split("\x1e")):
        name, flop, kind, *where = record.split("\x1f")
        problem = library.formula(name.encode(), flop.encode(), "\n".join(where).encode(), kind.encode()).decode()
        if problem:  # the launcher checked it: another version of mfu
            library.fact(b"note", problem.encode())
    for each in _waiting:
        library.formula(*each)
    _waiting.clear()


def add(name, flop, where, dtype):
    """What is wrong with it; empty: nothing, or it is looked at once torch is observed."""
    lines = "\n".join(f"{key}={value}" for key, value in (where or {}).items())
    given = tuple(part.encode() for part in (name, flop, lines, dtype or ""))
    if _state["library"] is None:
        _waiting.append(given)
        return ""
    return _state["library"].formula(*given).decode()
