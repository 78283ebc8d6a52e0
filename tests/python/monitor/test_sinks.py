"""Every documented metric is in JSON Lines, TensorBoard and the offline file of Weights & Biases, with equal values.
Each is read back by its own library."""

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import mfu

DOCUMENTED = [
    "perf/mfu",
    "perf/mfu_percent",
    "perf/step_time",
    "perf/steps_per_second",
    "perf/tokens_per_second",
    "perf/samples_per_second",
    "mfu/tokens_per_second",
    "mfu/flops_per_token",
    "mfu/mfu_percentage",
    "mfu/total_tokens_generated",
    "mfu/elapsed_time",
]

# Runs in its own process, because wandb keeps one service for each process.
PROGRAM = """
import sys, mfu
folder, wandb = sys.argv[1], {"own": "here", "none": None, "skip": "here"}[sys.argv[2]]
small = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 112,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96}
if sys.argv[2] == "none":
    import wandb as package
    run = package.init(project="theirs", settings=package.Settings(silent=True))
with mfu.Monitor(model=small, mode="estimate", peak=1e12, output_dir=folder, tensorboard=folder + "/board",
                 wandb=wandb, skip_wandb=sys.argv[2] == "skip") as monitor:
    for step in range(25):
        monitor.count_tokens(100 + step)
        monitor.log_step(step, 1, 2.0 - step / 100, 0.5, 1e-4, batch=2, seq=32, step_seconds=0.1, skip_wandb=step == 7)
        if step % 10 == 9:
            monitor.flush()
    told = monitor.warnings
if sys.argv[2] == "none":
    run.log({"theirs": 1}, step=30)
    run.finish()
print(told)
"""


def frames(path):
    """The records of an offline file. wandb dropped its Python reader in 0.2x but kept the messages. The file is a log
    of LevelDB: blocks of 32 kB with (crc, length, kind) fragments after a header of 7 bytes."""
    data, at, whole = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4:at + 6], "little"), data[at + 6]
        if kind == 0:
            at += left
            continue
        whole += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # full, last
            yield whole
            whole = b""
    assert not whole


def recorded(folder):
    """History rows and config of the offline file, parsed with wandb's own messages."""
    from wandb.proto import wandb_internal_pb2

    (path,) = Path(folder).glob("wandb/offline-run-*/run-*.wandb")
    rows, config = [], {}
    for data in frames(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            rows.append(
                {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            )
        elif record.WhichOneof("record_type") == "config":
            config.update(
                {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.config.update}
            )
    return rows, config


def ran(folder, way, **environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), way],
        capture_output=True,
        text=True,
        timeout=300,
        env=dict(
            os.environ,
            WANDB_MODE="offline",
            WANDB_DIR=str(folder),
            WANDB_SILENT="true",
            WANDB_ERROR_REPORTING="false",
            **environment,
        ),
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    pytest.importorskip("wandb", reason="wandb is not at hand")
    folder = tmp_path_factory.mktemp("own")
    ran(folder, "own")
    return folder


def expected(folder, name):
    lines = [json.loads(line) for line in open(folder / "training_log.json")]
    return [(line["step"], line[name]) for line in lines if name in line]


@pytest.mark.parametrize("name", DOCUMENTED + ["loss", "epoch", "grad_norm", "learning_rate"])
def test_all_three_have_it(own, name):
    wanted = expected(own, name)
    assert wanted
    tag = name if "/" in name else f"training/{name}"
    rows, _ = recorded(own)
    assert [(row["mfu/step"], row[tag]) for row in rows if tag in row] == [
        (step, value) for step, value in wanted if step != 7
    ]
    pytest.importorskip("tensorboard", reason="tensorboard is not at hand")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(own / "board"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    if tag in events.Tags()["scalars"]:
        shown = [(event.step, event.value) for event in events.Scalars(tag)]
    else:
        shown = [(event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
    assert [step for step, _ in shown] == [step for step, _ in wanted]
    assert [value for _, value in shown] == pytest.approx([value for _, value in wanted], rel=1e-6)


def test_w_and_b_knows_what_an_mfu_rests_on(own):
    rows, config = recorded(own)
    assert [row["mfu/step"] for row in rows] == [step for step in range(25) if step != 7]
    assert config["mfu_basis"]["peak_flop_per_s"] == 1e12 and config["mfu_basis"]["source"] == "estimated"


def test_the_programs_own_run_is_used_and_keeps_its_rows(tmp_path):
    pytest.importorskip("wandb", reason="wandb is not at hand")
    ran(tmp_path, "none")
    rows, _ = recorded(tmp_path)
    assert [row["theirs"] for row in rows if "theirs" in row] == [1]
    assert [row["mfu/step"] for row in rows if "mfu/step" in row] == [step for step in range(25) if step != 7]


def test_skip_wandb_skips_it_all(tmp_path):
    ran(tmp_path, "skip")
    assert not list(tmp_path.glob("wandb/offline-run-*"))


def test_a_missing_package_is_said_once_and_the_rest_goes_on(tmp_path):
    (tmp_path / "wandb.py").write_text("raise ImportError('no wandb')")
    done = ran(tmp_path, "own", PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert done.stdout.count("wandb is not installed") == 1 and "pip install wandb" in done.stdout
    assert len(expected(tmp_path, "perf/mfu")) == 25


def test_a_run_that_fails_or_hangs_holds_nobody_up(tmp_path, monkeypatch):
    class Run:
        step, rows = 0, []
        go = threading.Event()
        config = type("Config", (), {"update": lambda self, *given, **named: None})()

        def define_metric(self, *given, **named):
            pass

        def log(self, row, step):
            self.go.wait(20)
            raise OSError("no network")

    package = type(sys)("wandb")
    package.run = Run()
    monkeypatch.setitem(sys.modules, "wandb", package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        monitor = mfu.Monitor(output_dir=tmp_path)
        for step in range(200):
            monitor.log_step(step, loss=1.0, tokens=4, step_seconds=0.1)
            time.sleep(0.002)
        monitor._core.flush(20)
        assert len(expected(tmp_path, "loss")) == 200
        Run.go.set()
        monitor.close()
    said = [each for each in monitor.warnings if "Weights & Biases" in each]
    assert len(said) == 2 and "no network" in said[0] and "200 reports did not reach it" in said[1]
