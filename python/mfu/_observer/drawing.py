"""Tells `mfu run` if the program itself draws on the terminal. Then mfu shows no line of its own there.

Many libraries import tqdm, rich or curses, so importing them does not count; the first bar that is drawn does. Until
then each library is watched. Afterwards it is as it was.
"""


def _once(owner, name, library, is_drawn, what):
    """Passes on calls of owner.name. The first one that draws is reported, and then the original function is put back.
    """
    original = getattr(owner, name)

    def watched(*arguments, **named):
        result = original(*arguments, **named)
        try:
            if is_drawn(*arguments):
                library.fact(b"draws", what)
                if getattr(owner, name) is watched:
                    setattr(owner, name, original)
        except Exception:  # a progress bar that we do not know
            pass
        return result

    watched.__wrapped__ = original
    watched.__name__, watched.__doc__ = name, original.__doc__
    setattr(owner, name, watched)


def _is_terminal(stream):
    return bool(getattr(stream, "isatty", lambda: False)())


def install_tqdm(module, library):
    _once(module.tqdm, "__init__", library, lambda bar, *_: not bar.disable and _is_terminal(bar.fp), b"tqdm")


def install_rich(module, library):
    _once(module.Live, "start", library, lambda live, *_: live.console.is_terminal, b"rich")


def install_curses(module, library):
    _once(module, "initscr", library, lambda *_: True, b"curses")
