"""Asks `mfu flops` about a config, also by its class, and makes small configs to ask about."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "models"))
import server  # noqa: E402

MFU = os.environ.get("MFU_BINARY") or str(ROOT / "build/release/mfu")
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 100,
}


@pytest.fixture(scope="module")
def forked(tmp_path_factory):
    """A Python that already has the libraries: each question runs in a fork (tests/models)."""
    path = tmp_path_factory.mktemp("forked") / "socket"
    with server.serving(path):
        yield {"MFU_FORKED": str(path)}


def flops(folder, config, *options, name="config.json", forked=None, python=True, **environment):
    path = folder / name
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    if python:
        python = str(ROOT / "tests" / "models" / "forked.py") if forked else sys.executable
    batch = [] if "--lengths" in options else ["--batch", "2"]
    run = subprocess.run(
        [MFU, "flops", str(path), *batch, "--json", *(["--python", python] if python else []), *options],
        capture_output=True,
        text=True,
        env=os.environ | {"MFU_CACHE_DIR": str(folder / "cache")} | (forked or {}) | environment,
    )
    return run.returncode, json.loads(run.stdout)


def drawn(kind, **more):
    """A random config of a family: its sizes divide each other, and some of its switches are on."""
    pick = random.Random(kind).choice
    head, kv, groups = pick([8, 16]), pick([1, 2]), pick([1, 2, 4])
    made = {
        "model_type": kind,
        "hidden_size": head * kv * groups,
        "intermediate_size": pick([40, 96, 136]),
        "num_hidden_layers": pick([2, 3]),
        "num_attention_heads": kv * groups,
        "num_key_value_heads": kv,
        "head_dim": head,
        "vocab_size": pick([100, 333]),
        "pad_token_id": 0,
        "tie_word_embeddings": pick([True, False]),
    }
    return made | {key: pick(value) if isinstance(value, list) else value for key, value in more.items()}
