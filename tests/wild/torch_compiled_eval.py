"""torch.compile of a GPT: lengths change, evaluation in between"""

NEEDS = ["torch"]
EXPECT = {
    "steps": 6,
    "tokens": sum(2 * n for n in (12, 12, 16, 20, 12, 16)) + 3 * 2 * 12,
    "phases": {"train": 6, "validation": 3},
}
WHY = "the counter does not see into compiled graphs"
from shared import train_compiled

train_compiled((12, 12, 16, 20, 12, 16))
