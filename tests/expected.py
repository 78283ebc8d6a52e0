"""Reads from the build which tests there must be (cmake/expect.cmake). A listed test that is missing fails; a leftover
one is not run."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class NotRun(str):
    """The reason why a test could not run here. It is printed, and counts as neither passed nor failed."""


def expected(kind, preset, root=ROOT):
    """Paths of all programs of one kind in that build."""
    build = root / "build" / preset
    lines = [line.split(" ", 1) for line in (build / "tests.txt").read_text().splitlines()]
    return [build / name for listed, name in lines if listed == kind]
