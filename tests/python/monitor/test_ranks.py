"""Two processes with torch.distributed: rank 0 measures, the other one receives, and nobody waits. If rank 0 dies, that
is said."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import mfu

pytest.importorskip("torch", reason="torch is not at hand")
pytest.importorskip("transformers", reason="transformers is not at hand")
PROGRAM = Path(__file__).parent / "ranks_program.py"
SMALL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
}


def job(folder, mode, *more, codes=(0, 0), **environment):
    ranks = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), mode, str(folder), *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(
                os.environ,
                RANK=str(rank),
                WORLD_SIZE="2",
                LOCAL_RANK=str(rank),
                OMP_NUM_THREADS="1",
                MFU_RANK_PATIENCE_S="3",
                PYTHONWARNINGS="ignore",
                **environment,
            ),
        )
        for rank in range(2)
    ]
    said = []
    for rank, code in zip(ranks, codes):
        out, errors = rank.communicate(timeout=240)
        assert rank.returncode == code, errors
        said.append(json.loads(out.splitlines()[-1]) if out.strip() else None)
    return said


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def log_of(folder, rank):
    return [
        json.loads(line)
        for line in open(folder / ("training_log.json" if rank == 0 else f"training_log.rank{rank}.json"))
    ]


def test_rank_0_calibrates_for_all(tmp_path):
    first, second = job(tmp_path, "smart")
    assert first["measured"] >= 1 and second["measured"] == 0
    assert first["collectives"] == second["collectives"] == []
    lines = log_of(tmp_path, 1)
    assert {line["rank"] for line in lines} == {1} and {line["rank"] for line in log_of(tmp_path, 0)} == {0}
    calibrated = [line for line in lines if line["source"] == "calibrated"]
    assert calibrated and lines[0]["source"] == "estimated"
    # The count of rank 0 at length 16 tells what length 32 runs here.
    counted = counted_flop(2, 32)
    assert [line["model_flop"] for line in calibrated] == pytest.approx([counted] * len(calibrated), rel=1e-3)


def counted_flop(batch, seq):
    import torch
    import transformers

    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            **{key: value for key, value in SMALL.items() if key not in ("model_type", "architectures")}
        )
    )
    ids = torch.ones(batch, seq, dtype=torch.long)
    with mfu.count(modules=False) as counted:
        model(input_ids=ids, labels=ids).loss.backward()
    return counted.model_flop


def test_rank_0_counts_for_all(tmp_path):
    first, second = job(tmp_path, "profiler")
    assert first["measured"] >= 1 and second["measured"] == 0
    counted = [line for line in log_of(tmp_path, 1) if line.get("source") == "counted"]
    assert counted and {line["model_flop"] for line in counted} == {counted_flop(2, 16)}


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_a_dead_rank_0_leaves_the_others_with_what_they_have(tmp_path, kind):
    first, second = job(
        tmp_path, "smart", "die", codes=(9, 0), **({"MASTER_PORT": str(free_port())} if kind == "tcp" else {})
    )
    told = [each for each in second["warnings"] if "rank 0" in each]
    assert len(told) == 1 and "rank 1 goes on with" in told[0]
    lines = log_of(tmp_path, 1)
    assert len(lines) == second["steps"] + 3 and all("perf/mfu" in line for line in lines[1:])
    assert lines[-1]["source"] in ("calibrated", "estimated")
