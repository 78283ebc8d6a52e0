"""Reward models. Their tests are in this folder because each folder is one process, and a process has room for only so
many names of models."""

import torch
from models import Gpt
from test_phases import phases  # noqa: F401: a fixture


def test_a_reward_model_that_sees_one_token_more_in_each_step_does_not_generate(phases):  # noqa: F811
    """The answers get longer by chance. Only passes of one step can belong to a growing sequence."""
    policy, reward = Gpt(layers=1, width=16, heads=2), Gpt(layers=1, width=16, heads=2).eval()

    def program():
        optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
        for length in (6, 7, 8, 9):
            with torch.no_grad():
                reward(torch.zeros(2, length, dtype=torch.long))
            policy(torch.zeros(2, length, dtype=torch.long)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    found = phases(program)
    assert {key[0]: row["tokens"] for key, row in found.items()} == {"forward": 60, "train": 60}
