"""The test-only program of src/model."""

import probe


def find_probe():
    return probe.find("model")


def ask(requests):
    return probe.ask("model", requests)
