"""The command mfu: `python -m mfu …` and the console script. The program is C++ and comes with this package."""

import os
import sys
from pathlib import Path


def binary() -> Path:
    """The path of the program: $MFU_BINARY, or the one that this package was built with."""
    named = os.environ.get("MFU_BINARY")
    return Path(named) if named else Path(os.path.abspath(__file__)).parent / "bin" / "mfu"


def main() -> int:
    program = binary()
    if not program.exists():
        print(
            f"mfu: {program} is not there: the package was installed without its program. Install it again: pip install"
            " --force-reinstall openmfu",
            file=sys.stderr,
        )
        return 2
    # For what the program needs of Python (torch's ceiling, the observer, a model's class) it uses the active
    # environment, or else this one.
    os.environ.setdefault("MFU_OWN_PYTHON", sys.executable)
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
