"""`mfu explain` against what was written down, and against another reckoning from the same files.

The golden report, whole, to the last key. When a change of it is meant, write it anew and read the difference:

    python3 tests/python/test_explain_traces.py --write && git diff tests/golden
"""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MFU = os.environ.get("MFU_COMMAND", str(ROOT / "build" / "release" / "mfu"))
GOLDEN = ROOT / "tests" / "golden"
EIGHT_RANKS = ROOT.parent / "shared" / "traces" / "param_v100_dlrm_8rank"


def explained(folder, *words):
    run = subprocess.run([MFU, "explain", *words, "--json"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def as_written(report):
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"


def test_the_golden_trace_gives_the_golden_report():
    expected = (GOLDEN / "kineto_small.explain.json").read_text()
    report = explained(GOLDEN, "kineto_small.json")
    assert report == json.loads(expected)
    assert as_written(report) == expected  # also compares the order of keys


def union(spans):
    """The union of intervals, as disjoint sorted intervals."""
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif end > start:
            merged.append([start, end])
    return merged


def uncovered_ns(start, end, covering):
    return end - start - sum(max(0, min(end, b) - max(start, a)) for a, b in covering)


def test_waiting_and_transfer_of_eight_ranks_are_those_of_a_plain_reckoning():
    """The k-th collective of each kind on one rank matches the k-th on every other rank. A rank waits until the last
    rank has begun; the rest is transfer. These ranks ran on one machine, so they share a clock."""
    import pytest

    if not EIGHT_RANKS.is_dir():
        pytest.skip("the traces of eight ranks are not at hand")
    communication, compute = [], []
    for rank in range(8):
        events = [
            event
            for event in json.loads(gzip.open(EIGHT_RANKS / f"rank-{rank}.json.gz").read())["traceEvents"]
            if event.get("ph") == "X" and event.get("cat") == "kernel"
        ]
        spans = sorted((event["ts"] * 1000, (event["ts"] + event["dur"]) * 1000, event["name"]) for event in events)
        communication.append([span for span in spans if "nccl" in span[2]])
        compute.append(union([span[:2] for span in spans if "nccl" not in span[2]]))
    report = explained(EIGHT_RANKS.parent, EIGHT_RANKS.name, "--window", "all")
    matched, seen = {}, 0
    for rank, spans in enumerate(communication):
        counts = {}
        for span in spans:
            counts[span[2]] = counts.get(span[2], -1) + 1
            matched.setdefault((span[2], counts[span[2]]), {})[rank] = span
    expected = [[0, 0] for _ in range(8)]
    for together in matched.values():
        assert len(together) == 8
        last = max(start for start, _, _ in together.values())
        for rank, (start, end, _) in together.items():
            begun = min(max(last, start), end)
            expected[rank][0] += uncovered_ns(start, begun, compute[rank])
            expected[rank][1] += uncovered_ns(begun, end, compute[rank])
            seen += 1
    assert seen == 64
    for rank in report["ranks"]:
        lines = {line["line"]: line["duration_ns"] for line in rank["ledger"]}
        wait, transfer = expected[rank["rank"]]
        assert lines["exposed_communication_wait"] + lines["exposed_communication_transfer"] == wait + transfer
        # Clocks are aligned by the ends of the collectives, which differ by one or two microseconds of eight.
        assert abs(lines["exposed_communication_transfer"] - transfer) <= 8 * 2000
    share = {line["line"]: line["fraction"] for line in report["summary"]["ledger"]}
    window = sum(rank["window"]["duration_ns"] for rank in report["ranks"])
    assert abs(share["exposed_communication_transfer"] - sum(pair[1] for pair in expected) / window) < 0.0005
    assert share["exposed_communication_wait"] > 20 * share["exposed_communication_transfer"]


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    (GOLDEN / "kineto_small.explain.json").write_text(as_written(explained(GOLDEN, "kineto_small.json")))
