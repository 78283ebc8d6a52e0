"""Gets the same number in two independent ways: what transformers models really ran, counted in the process, and what
`mfu flops` computes from their configs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
mfu = pytest.importorskip("mfu")

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import observed_program as program  # noqa: E402

import torch  # noqa: E402

WORK = {"vit": {"images": program.BATCH, "batch": program.BATCH}}


def counted_and_needed(name):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, batch = program.make(name)
    given = batch()
    with mfu.count(depth=None) as counted:
        model(**given).loss.backward()
    assert not counted.problem, counted.problem
    need = mfu.flops(model, **WORK.get(name, {"batch": program.BATCH, "seq": program.SEQUENCE}))
    return counted, need


@pytest.fixture
def masked_flop(grouped_heads_are_plain):
    """The masked part that plain matmuls compute too: a causal model needs only S (S + 1) / 2 of the S² scores."""

    def masked(name, parts):
        if name not in ("llama", "qwen3_moe") or not grouped_heads_are_plain:
            return 0
        return parts.attention_scores * (program.SEQUENCE - 1) // (program.SEQUENCE + 1)

    return masked


@pytest.mark.parametrize("name", ["llama", "qwen3_moe", "bert", "vit", "whisper"])
def test_counted_equals_needed_to_the_last_digit(name, masked_flop):
    """BERT trains with dropout, so its attention runs as plain matmuls over the full square. Its mask is full, so that
    is what it needs."""
    counted, need = counted_and_needed(name)
    assert counted.model_flop == need.model_flop + masked_flop(name, need.flop_by_part)
    assert counted.recomputed_flop == 0 and counted.uncounted == []
    fused = counted.by_operator.get("aten::_scaled_dot_product_flash_attention_for_cpu", 0)
    # The fused backward computes the scores again, which is half of the forward.
    assert counted.hardware_flop - counted.model_flop == fused // 2


def sum_of(counted, *ends):
    """The sum over all modules whose name ends so, forward and backward."""
    return sum(flop for name, flop in counted.by_module.items() if name.endswith(ends))


@pytest.mark.parametrize("name", ["llama", "qwen3_moe"])
def test_decoders_agree_part_by_part(name, masked_flop, grouped_heads_are_plain):
    counted, need = counted_and_needed(name)
    parts = need.flop_by_part
    assert sum_of(counted, ".q_proj", ".k_proj", ".v_proj", ".o_proj") == parts.attention_projections
    assert sum_of(counted, ".lm_head") == parts.lm_head
    if name == "llama":
        assert sum_of(counted, ".mlp") == parts.mlp
    else:
        assert sum_of(counted, ".mlp.experts") == parts.experts
        assert sum_of(counted, ".mlp.gate") == parts.router
    if grouped_heads_are_plain:
        assert counted.by_operator["aten::bmm"] == parts.attention_scores + masked_flop(name, parts)
    else:
        assert 3 * counted.by_operator["aten::_scaled_dot_product_flash_attention_for_cpu"] == parts.attention_scores


def test_bert_agrees_part_by_part():
    counted, need = counted_and_needed("bert")
    parts = need.flop_by_part
    assert sum_of(counted, ".query", ".key", ".value", ".attention.output") == parts.attention_projections
    assert counted.by_operator["aten::bmm"] == parts.attention_scores
    assert (
        sum_of(counted, ".intermediate")
        + sum(flop for key, flop in counted.by_module.items() if key.endswith(".output") and ".attention." not in key)
        == parts.mlp
    )
    assert sum_of(counted, "BertForMaskedLM.cls") == parts.lm_head


def test_whisper_agrees_part_by_part():
    counted, need = counted_and_needed("whisper")
    parts = need.flop_by_part
    assert sum_of(counted, ".q_proj", ".k_proj", ".v_proj", ".out_proj") == parts.attention_projections
    assert sum_of(counted, ".fc1", ".fc2") == parts.mlp
    assert sum_of(counted, ".proj_out") == parts.lm_head
    assert sum_of(counted, ".conv1", ".conv2") == parts.audio


def test_mamba_agrees_part_by_part_and_the_rest_has_names():
    counted, need = counted_and_needed("mamba")
    assert sum_of(counted, ".lm_head") == need.flop_by_part.lm_head
    config = program.make("mamba")[0].config
    # forward and backward together are three times the forward
    rows = 3 * program.BATCH * program.SEQUENCE * config.num_hidden_layers
    inner, state, rank, kernel = (
        config.intermediate_size,
        config.state_size,
        int(config.time_step_rank),
        config.conv_kernel,
    )
    projections = 2 * rows * inner * (2 * config.hidden_size + (rank + 2 * state) + config.hidden_size)
    assert sum_of(counted, ".in_proj", ".x_proj", ".out_proj") == projections
    steps = 2 * rows * rank * inner  # dt_proj: the mixer itself multiplies by its weight
    scan, convolution = 9 * rows * inner * state, 2 * rows * kernel * inner
    assert need.flop_by_part.ssm == projections + steps + scan + convolution
    assert counted.by_operator["aten::mm"] == projections + steps + need.flop_by_part.lm_head
    # The two parts that differ, by name. The scan is element-wise except for its last product, 2 of its 9 operations.
    assert counted.by_operator["aten::bmm"] * 9 == scan * 2
    # The convolution also runs over the padding on its left, which is cut off afterwards.
    executed = counted.by_operator["aten::convolution"] + counted.by_operator["aten::convolution_backward"]
    assert executed * program.SEQUENCE == convolution * (program.SEQUENCE + kernel - 1)
    assert counted.model_flop == need.model_flop - scan * 7 // 9 + (executed - convolution)


def mfu_run(tmp_path, *command, options=()):
    binary = [sys.executable, "-m", "mfu"]
    if subprocess.run([*binary, "run", "--help"], capture_output=True).returncode != 0:
        pytest.skip("this build has no `mfu run`")
    report = tmp_path / "report.json"
    done = subprocess.run(
        [*binary, "run", "--dir", str(tmp_path / "run"), "--json-file", str(report), *options, "--", *command],
        capture_output=True,
        text=True,
        timeout=300,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
    )
    return done, json.loads(report.read_text())


@pytest.mark.parametrize("name", ["llama", "qwen3_moe"])
def test_a_plain_program_under_mfu_run(name, tmp_path, masked_flop):
    command = [sys.executable, str(HERE / "observed_program.py"), name]
    plain = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=dict(os.environ, OMP_NUM_THREADS="1")
    )
    done, report = mfu_run(tmp_path, *command)
    assert done.returncode == plain.returncode == 0, done.stderr
    assert done.stdout == plain.stdout  # to the last digit of the loss
    model, _ = program.make(name)
    need = mfu.flops(model, batch=program.BATCH, seq=program.SEQUENCE)
    assert report["model_flop"] == program.STEPS * (need.model_flop + masked_flop(name, need.flop_by_part))
    assert report["steps"] == program.STEPS and report["tokens"] == program.STEPS * program.BATCH * program.SEQUENCE


def test_the_model_given_takes_the_exact_area_of_plain_attention(tmp_path):
    """Attention as plain matmuls runs the full square. `--model` subtracts the masked half, which leaves what fused
    attention needs."""
    model, _ = program.make("llama")
    (tmp_path / "config.json").write_text(json.dumps(model.config.to_dict() | {"architectures": ["LlamaForCausalLM"]}))
    command = [sys.executable, str(HERE / "observed_program.py"), "llama_eager"]
    done, report = mfu_run(tmp_path, *command, options=["--model", str(tmp_path / "config.json")])
    assert done.returncode == 0, done.stderr
    need = mfu.flops(model, batch=program.BATCH, seq=program.SEQUENCE)
    assert report["model_flop"] == program.STEPS * need.model_flop < report["hardware_flop"]
