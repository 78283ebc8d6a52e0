"""On a busy machine a program may stand still for long between two operators. That is no server that rests."""

import time

import pytest
import torch
from models import Gpt
from test_phases import phases  # noqa: F401: a fixture
from torch import nn


class Recurrent(nn.Module):
    """Makes no logits for its table, so nobody can tell that a pass is over before the next one begins."""

    def __init__(self):
        super().__init__()
        self.table, self.blocks = nn.Embedding(64, 16), nn.ModuleList([nn.Linear(16, 16, bias=False) for _ in range(2)])
        self.head = nn.Linear(16, 4, bias=False)

    def forward(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.mark.parametrize("kind", ["logits", "state"])
def test_a_pause_in_the_midst_of_a_pass_changes_nothing_but_time(phases, kind):  # noqa: F811
    policy = (Gpt(layers=1, width=16, heads=2) if kind == "logits" else Recurrent()).eval()
    judge = nn.Sequential(nn.Embedding(64, 16), nn.Linear(16, 16), nn.Linear(16, 1)).eval()
    pauses = []
    for module in (*policy.blocks, policy.head, judge[1], judge[2]):
        module.register_forward_pre_hook(lambda *_: time.sleep(pauses[0]) if pauses else None)

    def program():
        with torch.no_grad():
            for _ in range(2):
                for length in range(4, 7):  # the last pass makes as many rows of logits as the judge reads sequences
                    policy(torch.zeros(1, length if kind == "logits" or length == 4 else 1, dtype=torch.long))
                judge(torch.zeros(6, 8, dtype=torch.long))

    def all_but_time(found):
        return {key: {name: value for name, value in row.items() if "time" not in name} for key, row in found.items()}

    name = type(policy).__name__
    expected = all_but_time(phases(program))
    assert {key: row["tokens"] for key, row in expected.items()} == {
        ("prefill", name): 2 * 4,
        ("decode", name): 2 * (5 + 6 if kind == "logits" else 2),
        ("forward", "Sequential"): 2 * 6 * 8,
    }
    pauses.append(0.2)
    assert all_but_time(phases(program)) == expected


def test_prompts_that_one_token_answered_are_booked_when_a_server_waits(phases, observer):  # noqa: F811
    """It may be killed then."""

    class Answers(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(64, 32), nn.Linear(32, 64)

        def forward(self, ids):
            return self.head(self.table(ids)[:, -1])

    model, seen = Answers(), {}

    def program():
        with torch.no_grad():
            for length in (5, 6, 7):  # generates, so idle time is watched from here on
                model(torch.randint(0, 64, (2, length)))
            before = observer.phases()
            for length in (9, 4, 12):
                model(torch.randint(0, 64, (2, length)))
            time.sleep(0.4)
            for key, row in observer.phases().items():
                if row["model"] == "Answers":
                    seen[key[0]] = row["passes"] - before.get(key, {}).get("passes", 0)

    phases(program)
    assert seen["prefill"] >= 2  # the last pass of this thread is still open
