"""The example at the top of a public header, as a source that compiles: `header_examples.py HEADER OUTPUT`.

The lines of the opening comment that are set in by three blanks are the example. The header comes first, so it
compiles alone."""

import re
import sys
from pathlib import Path

OPENING = """#include "mfu/{name}.h"
#include <stdio.h>
"""


def example_of(text):
    """The lines of the example; none if the opening comment has no example."""
    opening = text.split("#pragma once")[0]
    return [line[5:] for line in opening.splitlines() if line.startswith("//   ")]


def source_of(name, text):
    lines = example_of(text)
    if not lines:
        raise SystemExit(f"include/mfu/{name}.h: opens without an example: lines that begin with `//   `")
    body = "".join(f"  {line}\n" for line in lines)
    used = {word for word in re.findall(r"\bmfu_\w+|mfu::\w+|MFU_TRY", body)}
    if not used:
        raise SystemExit(f"include/mfu/{name}.h: its example uses nothing of ours")
    opening = OPENING.format(name=name)
    if name in ("c", "observer"):
        return opening + f"void example_of_{name}(void);\nvoid example_of_{name}(void) {{\n{body}}}\n"
    fails = re.search(r"MFU_TRY|mfu::Failure", body)
    returns = (
        f"mfu::Result<void> example_of_{name}();\nmfu::Result<void> example_of_{name}() {{\n{body}  return {{}};\n}}\n"
    )
    if not fails:
        returns = f"void example_of_{name}();\nvoid example_of_{name}() {{\n{body}}}\n"
    return opening + "#include <optional>\n#include <vector>\n" + returns


if __name__ == "__main__":
    header, output = Path(sys.argv[1]), Path(sys.argv[2])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(source_of(header.stem, header.read_text()))
