"""What the tests of this folder share: the command, and the cost of one step of the programs' model."""

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))

BATCH, IN, HIDDEN, OUT = 8, 16, 32, 4
FORWARD = 2 * BATCH * IN * HIDDEN + 2 * BATCH * HIDDEN * OUT
STEP = FORWARD + 2 * BATCH * IN * HIDDEN + 2 * (2 * BATCH * HIDDEN * OUT)
