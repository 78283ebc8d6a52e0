"""Merging parts of traces gives the same JSON, byte for byte, as reading the traces together, for real traces and for
made-up ranks."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
MFU = os.environ.get("MFU_COMMAND", str(ROOT / "build" / "release" / "mfu"))


SHARED = ROOT.parent / "shared" / "traces"


def mfu(*arguments, status=0):
    run = subprocess.run([MFU, "explain", *map(str, arguments)], capture_output=True, text=True, timeout=600)
    assert run.returncode == status, run.stderr[-2000:]
    return run


def sets():
    """Every file by itself, the ranks of one job, and files that do not belong together."""
    files = sorted(SHARED.glob("*.json.gz"))
    yield from ([file] for file in files)
    if files:
        yield sorted((SHARED / "param_v100_dlrm_8rank").glob("*.json.gz"))
        yield [file for file in files if "hta_a100" in file.name or "resnet" in file.name]


def merged(traces, folder, *options, parts=None):
    """Writes a part for each group of traces, and merges them."""
    made = []
    for number, group in enumerate(parts or [[trace] for trace in traces]):
        made.append(folder / f"{number}.mfu-part")
        mfu(*group, "--partial", made[-1])
    return mfu(*made, *options).stdout


@pytest.fixture
def ranks(tmp_path):
    """Twelve ranks of a made-up job."""
    subprocess.run(
        [sys.executable, ROOT / "bench" / "make_ranks.py", tmp_path / "ranks", "--ranks", "12", "--layers", "6"],
        check=True,
    )
    return sorted((tmp_path / "ranks").glob("*.json"))


@pytest.mark.parametrize("traces", list(sets()), ids=lambda traces: f"{traces[0].name}+{len(traces) - 1}")
def test_parts_of_real_traces_are_the_traces_together(traces, tmp_path):
    assert merged(traces, tmp_path, "--json") == mfu(*traces, "--json").stdout


def test_part_is_small(tmp_path):
    """At most 2% for traces from 50 MB on; the largest real one has 63 MB."""
    large = SHARED / "tl_mi300x_xdit_flux_sage.json.gz"
    if not large.exists():
        pytest.skip("the shared traces are not at hand")
    told = json.loads(mfu(large, "--partial", tmp_path / "x.mfu-part", "--json").stdout)
    assert told["schema"] == "mfu.part/1" and told["json_bytes"] > 50e6
    assert told["bytes"] == (tmp_path / "x.mfu-part").stat().st_size <= 0.02 * told["json_bytes"]


@pytest.mark.parametrize(
    "options",
    [
        ["--json"],
        ["--json", "--peak", "100e12"],
        ["--json", "--device", "NVIDIA H100 80GB HBM3"],
        ["--json", "--dtype", "fp8"],
        ["--markdown"],
        ["--csv"],
        [],
    ],
    ids=" ".join,
)
def test_what_is_given_at_the_merge_counts(ranks, tmp_path, options):
    parts = [ranks[:5], ranks[5:6], ranks[6:]]
    assert merged(ranks, tmp_path, *options, parts=parts) == mfu(*ranks, *options).stdout


def test_collectives_are_matched_across_parts(ranks, tmp_path):
    found = json.loads(merged(ranks, tmp_path, "--json"))
    waits = [rank["communication_wait_ns"] for rank in found["ranks"]]
    assert found["summary"]["slowest_rank"] == 5 and all(wait > 0 for wait in waits[:5])


def test_page_is_the_same(ranks, tmp_path):
    together, later = tmp_path / "together.html", tmp_path / "later.html"
    mfu(*ranks, "--html", together)
    merged(ranks, tmp_path, "--html", later)
    assert later.read_text() == together.read_text()


def test_order_parts_and_traces_are_given_in_does_not_matter(ranks, tmp_path):
    together = mfu(*ranks, "--json").stdout
    mixed = list(ranks[3:])
    mfu(ranks[2], ranks[0], "--partial", tmp_path / "a.mfu-part")
    mfu(ranks[1], "--partial", tmp_path / "b.mfu-part")
    mixed += [tmp_path / "b.mfu-part", tmp_path / "a.mfu-part"]
    random.Random(3).shuffle(mixed)
    assert mfu(*mixed, "--json").stdout == together
    # A part made of parts, and a folder of parts.
    mfu(tmp_path / "a.mfu-part", tmp_path / "b.mfu-part", *ranks[3:], "--partial", tmp_path / "parts" / "all.mfu-part")
    assert mfu(tmp_path / "parts", "--json").stdout == together


def test_window_is_the_parts_own(ranks, tmp_path):
    mfu(ranks[0], "--partial", tmp_path / "a.mfu-part", "--window", "all")
    assert mfu(tmp_path / "a.mfu-part", "--json").stdout == mfu(ranks[0], "--window", "all", "--json").stdout
    assert (
        mfu(tmp_path / "a.mfu-part", "--window", "all", "--json").stdout
        == mfu(ranks[0], "--window", "all", "--json").stdout
    )
    refused = mfu(tmp_path / "a.mfu-part", "--window", "steps", status=2).stderr
    assert "a.mfu-part: has its window already" in refused
    assert (
        "--partial: only --window" in mfu(
            ranks[0], "--partial", tmp_path / "b.mfu-part", "--peak", "1e12", status=2
        ).stderr
    )
    assert not (tmp_path / "b.mfu-part").exists()


def damaged(whole):
    yield "empty", b"", "it is empty"
    yield "cut", whole[: len(whole) // 2], "cut off"
    yield "without its end", whole[:-20], "cut off"
    yield "changed", whole[:200] + bytes([whole[200] ^ 1]) + whole[201:], "damaged"
    yield "other format", whole.replace(b"mfu-part 2 ", b"mfu-part 9 ", 1), "format 9"
    yield "no part", b"{}\n", "no part"


def test_damaged_part_is_named_and_the_rest_explained(ranks, tmp_path):
    good, bad = tmp_path / "good.mfu-part", tmp_path / "bad.mfu-part"
    mfu(*ranks[1:], "--partial", good)
    mfu(ranks[0], "--partial", bad)
    rest = json.loads(mfu(good, "--json").stdout)
    for kind, content, why in damaged(bad.read_bytes()):
        bad.write_bytes(content)
        run = mfu(bad, good, "--json")
        found = json.loads(run.stdout)
        assert found["partial"] is True and found["ranks"] == rest["ranks"], kind
        assert [note for note in found["notes"] if "bad.mfu-part" in note and why in note], (kind, found["notes"])
        assert "bad.mfu-part" in run.stderr
        assert why in mfu(bad, status=2).stderr, kind
    bad.unlink()
    assert "bad.mfu-part" in mfu(bad, good, status=2).stderr


def test_no_change_of_a_byte_is_believed(ranks, tmp_path):
    """Each of a thousand mutations is refused, or gives the same as before."""
    part = tmp_path / "a.mfu-part"
    mfu(ranks[0], "--partial", part)
    whole, dice = part.read_bytes(), random.Random(21)
    expected = mfu(part, "--json").stdout
    files = []
    for number in range(1000):
        content = bytearray(whole)
        for _ in range(dice.choice([1, 1, 2, 8])):
            content[dice.randrange(len(content))] = dice.randrange(256)
        if dice.random() < 0.2:
            del content[dice.randrange(len(content)) :]
        files.append(tmp_path / f"m{number}.mfu-part")
        files[-1].write_bytes(content)
    found = json.loads(mfu(part, *files, "--json").stdout)
    unchanged = [file for file in files if file.read_bytes() == whole]
    assert len(found["ranks"]) == 1 + len(unchanged)
    if not unchanged:
        assert found["ranks"] == json.loads(expected)["ranks"]


def test_an_empty_trace_is_named_and_the_rest_is_explained(ranks, tmp_path):
    empty = tmp_path / "killed.json"
    rest = json.loads(mfu(*ranks[1:], "--json").stdout)
    for content in ("", "{}", '{"traceEvents": []}'):
        empty.write_text(content)
        run = mfu(empty, *ranks[1:], "--json")
        found = json.loads(run.stdout)
        assert found["partial"] is True and found["ranks"] == rest["ranks"], content
        assert [note for note in found["notes"] if "killed.json" in note] and "killed.json" in run.stderr
        assert "killed.json" in mfu(empty, status=2).stderr


def test_a_rank_in_two_files_is_noted(ranks, tmp_path):
    mfu(ranks[0], "--partial", tmp_path / "0.mfu-part")
    found = json.loads(mfu(*ranks, tmp_path / "0.mfu-part", "--json").stdout)
    said = [note for note in found["notes"] if "rank 0 is in more than one file" in note]
    assert len(said) == 1 and "(1 files too many in all)" in said[0] and len(found["ranks"]) == 13
    assert "more than one file" not in mfu(*ranks, "--json").stdout


def test_the_text_about_many_ranks_is_short(tmp_path):
    """Of 80 ranks the text shows the slowest and those next to it, and one note of each kind; JSON has all."""
    script = ROOT / "bench" / "make_ranks.py"
    subprocess.run([sys.executable, script, tmp_path, "--ranks", "80", "--layers", "2", "--steps", "1"], check=True)
    found = json.loads(mfu(tmp_path, "--json").stdout)
    assert len(found["ranks"]) == 80 and len(found["notes"]) > 20
    for text in (mfu(tmp_path).stdout, mfu(tmp_path, "--markdown").stdout):
        assert text.count("faster than the peak") == 1 and "such notes)" in " ".join(text.split())
    text = mfu(tmp_path).stdout
    assert "16 of 80 ranks, those that the others wait for; --csv and --json have all" in text
    assert f"\n{found['summary']['slowest_rank']} (slowest)" in text and text.count(".json") == 16
