"""What the build says the tests must find (cmake/expect.cmake), so that what is not there fails and what is left over
is not run."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class NotRun(str):
    """Why a test could not be run here: said, neither passed nor failed."""


def expected(kind, preset, root=ROOT):
    """Paths of one kind of program in that build."""
    build = root / "build" / preset
    lines = [line.split(" ", 1) for line in (build / "tests.txt").read_text().splitlines()]
    return [build / name for listed, name in lines if listed == kind]
