"""Measures merging the part files of 8, 64, 512 and 1,000 made-up ranks: bench/merge_ranks.py [BUILD] [--json PATH].

For each number of ranks it prints how large the parts are, what merging them takes (processor time and memory), what
reading all traces at once takes, and whether both give the same output. The cost per rank should not grow. It fails if
the outputs differ or a merge takes 1 GB or more."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MACHINE = 50  # ranks whose traces go into one part file, as if one machine had made it


def measured(*words):
    """(output, processor seconds, highest memory in MB) of a command."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        os.close(read)
        os.execv(words[0], [str(word) for word in words])
    os.close(write)
    with os.fdopen(read, "rb") as output:
        text = output.read()
    _, status, used = os.wait4(child, 0)
    assert status == 0, words
    return text, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default=ROOT / "build" / "release", type=Path)
    parser.add_argument("--ranks", default="8,64,512,1000")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    mfu, rows = asked.build / "mfu", []
    print(
        f"{'ranks':>6} {'JSON MB':>8} {'parts MB':>9} {'merge s':>8} {'ms/rank':>8} {'merge MB':>9} {'together s':>11}"
        f" {'together MB':>12}  same"
    )
    for ranks in map(int, asked.ranks.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            subprocess.run(
                [sys.executable, ROOT / "bench" / "make_ranks.py", folder / "traces", "--ranks", str(ranks)], check=True
            )
            traces = [folder / "traces" / f"rank-{rank}.json" for rank in range(ranks)]
            parts = [folder / f"{first}.mfu-part" for first in range(0, ranks, MACHINE)]
            for number, part in enumerate(parts):
                measured(mfu, "explain", *traces[number * MACHINE : (number + 1) * MACHINE], "--partial", part)
            merged, seconds, memory = measured(mfu, "explain", *parts, "--json")
            together, whole_seconds, whole_memory = measured(mfu, "explain", *traces, "--json")
            row = {
                "ranks": ranks,
                "json_mb": sum(trace.stat().st_size for trace in traces) / 1e6,
                "parts_mb": sum(part.stat().st_size for part in parts) / 1e6,
                "merge_s": seconds,
                "merge_ms_per_rank": 1e3 * seconds / ranks,
                "merge_mb": memory,
                "together_s": whole_seconds,
                "together_mb": whole_memory,
                "same": merged == together,
            }
            rows.append(row)
            print(
                f"{ranks:6} {row['json_mb']:8.1f} {row['parts_mb']:9.2f} {seconds:8.3f} {row['merge_ms_per_rank']:8.3f}"
                f" {memory:9.1f} {whole_seconds:11.3f} {whole_memory:12.1f}  {'yes' if row['same'] else 'NO'}",
                flush=True,
            )
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1))
    return 0 if all(row["same"] and row["merge_mb"] < 1000 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
