"""mfu.compat: the documents' calls run as written, with the documented results."""

import hashlib
import json
import math
import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

import mfu
from mfu import compat

torch = pytest.importorskip("torch", reason="torch is not at hand")
transformers = pytest.importorskip("transformers", reason="transformers is not at hand")
DOCUMENTS = Path(__file__).resolve().parents[4] / "shared" / "documents"


@pytest.fixture(autouse=True)
def afresh(monkeypatch):
    monkeypatch.setattr(compat, "_said", set())
    monkeypatch.setattr(compat, "_peak", None)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=112,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=96,
    )
    return transformers.LlamaForCausalLM(config)


def forward_flop(model, batch, seq):
    return mfu.flops(model, phase="forward", batch=batch, seq=seq).model_flop


def test_flops_per_token_are_those_of_a_forward_pass_of_one_token(model, capsys):
    flop = compat.calculate_model_flops_per_token(model, None)
    assert flop == forward_flop(model, 1, 1)
    assert capsys.readouterr().out == f"Calculating FLOPs per token for MFU tracking...\nFLOPs per token: {flop}\n"


@pytest.mark.parametrize("broken", [None, torch.nn.Linear(2, 2), object(), torch.nn.Embedding(2, 2, device="meta")])
def test_what_cannot_be_counted_is_0_and_said(broken):
    with pytest.warns(RuntimeWarning, match="nothing was counted|0 FLOPs per token"):
        assert compat.calculate_model_flops_per_token(broken, None) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compat.calculate_mfu_with_profiler(broken, 1, 8, 0.1) == 0
        assert compat.profile_model_flops(broken, {}) == 0 or broken is not None
        compat.calculate_precise_mfu(broken, 1, 8, 0.1)


def test_a_missing_dependency_switches_itself_off():
    program = (
        "import sys; sys.modules['torch'] = None\nfrom mfu import"
        " compat\nprint(compat.calculate_model_flops_per_token(None, None))\nprint(compat.calculate_mfu(1e9, 10,"
        " 'a-7b'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (
        done.returncode == 0 and done.stderr.count("torch not available, MFU calculation will be disabled") == 1
    ), done.stderr
    assert done.stdout.splitlines()[2] == "0.0"


@pytest.mark.parametrize(
    "name, size",
    [
        ("llama-7b", 7e9),
        ("Llama-2-70b-chat-hf", 70e9),
        ("Qwen/Qwen2.5-0.5B-Instruct", 0.5e9),
        ("qwen-13b", 13e9),
        ("Qwen3-32B", 32e9),
        ("SmolLM2-135M", 135e6),
        ("Mixtral-8x7B-v0.1", 56e9),
        ("vicuna7b", 7e9),
        ("Llama-3.1-8B-8bit", 8e9),
        ("model-8bit", None),
        ("gpt2", None),
    ],
)
def test_a_size_is_recognised_in_a_name(name, size):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        percent = compat.calculate_mfu(0, 100.0, name)
    assert percent == pytest.approx(100 * 2 * (size or 7e9) * 100 / 312e12)
    told = [str(each.message) for each in said]
    assert any("Could not determine model size from model_name, using 7b as default" in text for text in told) == (
        size is None
    )
    assert any("A100" in text for text in told)


def test_both_forms_of_calculate_mfu():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert compat.calculate_mfu(14e9, 1000.0, "llama-7b") == pytest.approx(100 * 14e12 / 312e12)
        assert compat.calculate_mfu(
            flops_per_token=14e9, tokens_per_second=1000.0, model_name="llama-7b"
        ) == pytest.approx(100 * 14e12 / 312e12)
        assert not [each for each in said if "suspect" in str(each.message)]
        compat.calculate_mfu(40e9, 1000.0, "llama-7b")
        assert [each for each in said if "suspect" in str(each.message)]
    assert compat.calculate_mfu(156e12, 1.0, 312e12) == 0.5
    assert compat.calculate_mfu(flops=156e12, compute_time=2.0, gpu_peak_flops=312e12) == 0.25
    with pytest.warns(RuntimeWarning, match="above 0"):
        assert compat.calculate_mfu(1.0, 0.0, 312e12) == 0 and compat.calculate_mfu(1.0, math.nan, 312e12) == 0


def test_tokens_of_many_threads_are_all_there():
    tracker = compat.TokenTracker()
    taken = []

    def generate():
        for _ in range(5000):
            tracker.add(3)
            tracker.mfu_tokens_generated.append(4)

    threads = [threading.Thread(target=generate) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken.append(tracker.take())
    taken.append(tracker.take(2e9, "llama-1b"))
    assert sum(period["mfu/total_tokens_generated"] for period in taken) == 4 * 5000 * 7
    assert set(taken[-1]) == {
        "mfu/tokens_per_second",
        "mfu/flops_per_token",
        "mfu/mfu_percentage",
        "mfu/total_tokens_generated",
        "mfu/elapsed_time",
    }


def test_the_profilers_mfu_is_of_a_forward_pass_and_ends_at_1(model):
    with pytest.warns(RuntimeWarning, match="forward pass only"):
        used = compat.calculate_mfu_with_profiler(model, 4, 16, 0.1)
    # the operators ran the whole square of scores
    assert used == pytest.approx(forward_flop(model, 4, 16) / 0.1 / 312e12, rel=0.2)
    counted = compat._measure_flops_with_profiler(model, 4, 16)
    assert used == counted / 0.1 / 312e12
    assert compat.calculate_mfu_with_profiler(model, 4, 16, 1e-12) == 1.0
    for time in (0.0, -1.0, math.nan):
        assert compat.calculate_mfu_with_profiler(model, 4, 16, time) == 0


def test_counting_leaves_the_model_as_it_was(model):
    model.train()
    weights = [weight.clone() for weight in model.parameters()]
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    state = torch.random.get_rng_state()
    compat.calculate_precise_mfu(model, 2, 8, 0.1, measurement_mode="profiler")
    compat.calculate_mfu_with_profiler(model, 2, 9, 0.1)
    assert model.training and torch.equal(state, torch.random.get_rng_state())
    for weight, before in zip(model.parameters(), weights):
        assert torch.equal(weight, before) and torch.equal(weight.grad, torch.ones_like(weight))
        weight.grad = None


def test_modes_of_the_precise_mfu(model):
    exact = mfu.flops(model, batch=2, seq=32).model_flop / 0.5 / 312e12
    assert compat.calculate_precise_mfu(model, 2, 32, 0.5, measurement_mode="estimate") == pytest.approx(exact)
    measured = compat.calculate_precise_mfu(model, 2, 32, 0.5, measurement_mode="profiler")
    assert compat.calculate_precise_mfu(model, 2, 32, 0.5) == pytest.approx(measured, rel=1e-9)
    # from the calibration, no longer counted
    assert compat.calculate_precise_mfu(model, 6, 32, 0.5) == pytest.approx(3 * measured, rel=1e-9)
    assert compat._smart[model].factors.keys() == {32}
    with pytest.warns(RuntimeWarning, match="counted operators gave the number"):
        assert compat.calculate_precise_mfu(model, 2, 32, 0.5, "hybrid") == measured
    assert compat.calculate_precise_mfu(model, 2, 32, 0.5, actual_flops=156e12 / 2) == 0.5
    with pytest.warns(RuntimeWarning, match="smart, profiler, estimate or hybrid"):
        compat.calculate_precise_mfu(model, 2, 32, 0.5, "clever")


def test_the_documented_estimate_and_its_parts(model):
    parameters = sum(weight.numel() for weight in model.parameters())
    mask = torch.tensor([[1] * 10 + [0] * 6, [1] * 16])
    batch = {"input_ids": torch.ones(2, 16, dtype=torch.long), "attention_mask": mask}
    assert compat._get_actual_sequence_length(batch) == 13
    assert compat._estimate_forward_flops(model, batch) == 2.5 * parameters * 2 * 13
    with pytest.warns(RuntimeWarning, match="documented estimate"):
        assert compat.profile_model_flops(model, batch) == 3 * 2.5 * parameters * 2 * 13
    assert compat._estimate_flops_fallback(model, batch, coefficient=2) == 6 * parameters * 2 * 13
    assert compat._get_actual_sequence_length({"input_ids": batch["input_ids"]}) == 16
    picture = {"pixel_values": torch.zeros(1)}
    assert compat._get_visual_tokens(picture) == compat._get_actual_sequence_length(picture) == 576
    assert compat._get_visual_tokens({"image_grid_thw": torch.tensor([[1, 16, 24]])}) == 96
    assert compat._get_visual_tokens(batch) == 0
    with pytest.warns(RuntimeWarning, match="no FLOPs can be estimated"):
        assert compat.profile_model_flops(None, batch) == 0.0


def test_the_training_monitor(model, tmp_path, capsys, lines):
    monitor = compat.TrainingMonitor(str(tmp_path / "outputs"), None, flops_profile_freq=5)
    monitor.set_model_ref(model)
    monitor.batch_size = 2
    mask = torch.ones(2, 16, dtype=torch.long)
    for step in range(11):
        monitor.log_step(step, 0, 2.0, 1.0, 1e-4, mask)
    monitor.close()
    logged = lines(tmp_path / "outputs" / "training_log.json")
    assert [line["step"] for line in logged if line["perf/mfu"]] == [0, 5, 10]
    assert all(line["perf/mfu"] == 0 for line in logged if line["step"] % 5)
    counted = compat._measure_flops_with_profiler(model, 2, 16)
    for line in logged[::5]:
        assert line["perf/mfu"] == pytest.approx(counted / line["perf/step_time"] / 312e12, rel=1e-4)
        assert line["perf/mfu_percent"] == pytest.approx(100 * line["perf/mfu"])
    assert capsys.readouterr().out.count("使用profiler计算MFU") == 3
    for name in ("perf/steps_per_second", "perf/tokens_per_second", "perf/samples_per_second"):
        assert name in logged[3]


def test_the_training_monitor_by_mode_and_without_a_model(model, tmp_path, lines):
    with compat.TrainingMonitor(tmp_path / "smart", {"monitoring": {"mfu_calculation_mode": "smart"}}) as monitor:
        monitor.set_model_ref(model)
        for step in range(5):
            monitor.log_step(step, 0, 1.0, 1.0, 1e-4, torch.ones(2, 16, dtype=torch.long))
            monitor.monitor.flush()
    logged = lines(tmp_path / "smart" / "training_log.json")
    assert [line["source"] for line in logged] == ["counted"] + ["calibrated"] * 4
    assert len({line["model_flop"] for line in logged}) == 1 and all(line["perf/mfu"] > 0 for line in logged)
    with pytest.warns(RuntimeWarning, match="set_model_ref"):
        with compat.TrainingMonitor(tmp_path / "none") as monitor:
            monitor.log_step(0, 0, 1.0, 1.0, 1e-4)
    assert lines(tmp_path / "none" / "training_log.json")[0].get("perf/mfu", 0) == 0


# The documents' own text.

USAGE_B = '''from training.utils.monitor import calculate_mfu_with_profiler

# 直接计算MFU
mfu = calculate_mfu_with_profiler(model, batch_size=4, seq_length=512, step_time=0.1)
print(f"MFU: {mfu:.4f}")
'''
USAGE_B_TRAINING = '''# 创建TrainingMonitor
monitor = TrainingMonitor("./outputs", config, flops_profile_freq=500)

# 在训练循环中
for step in range(total_steps):
    # ... 训练代码
    
    # 记录步骤（自动处理MFU计算）
    monitor.log_step(step, epoch, loss, grad_norm, lr, attention_mask)
'''
USAGE_B_SETTINGS = '''# 创建TrainingMonitor时指定频率
monitor = TrainingMonitor(
    output_dir="./outputs", 
    config=config, 
    flops_profile_freq=500
)
'''
USAGE_E = '''from training.utils.monitor import profile_model_flops

# 计算FLOPs（现在使用估算方法）
flops = profile_model_flops(model, batch_example)

# 计算MFU
mfu = calculate_mfu(flops, compute_time, gpu_peak_flops)
'''


@pytest.fixture
def script_folder(tmp_path, monkeypatch):
    """A user's source tree with the one line that is needed."""
    package = tmp_path / "training" / "utils"
    package.mkdir(parents=True)
    (tmp_path / "training" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "monitor.py").write_text("from mfu.compat import *\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name == "training" or name.startswith("training.")]:
        del sys.modules[name]


def names(model):
    found = {
        "model": model,
        "config": {"monitoring": {"flops_profile_freq": 500}},
        "total_steps": 3,
        "epoch": 0,
        "loss": 2.0,
        "grad_norm": 1.0,
        "lr": 1e-4,
        "attention_mask": torch.ones(2, 16, dtype=torch.long),
        "batch_example": {"input_ids": torch.ones(2, 16, dtype=torch.long)},
        "compute_time": 0.5,
        "gpu_peak_flops": 312e12,
    }
    exec("from training.utils.monitor import *", found)
    return found


@pytest.mark.parametrize(
    "snippet", [USAGE_B, USAGE_B_TRAINING, USAGE_B_SETTINGS, USAGE_E], ids=["call", "training", "settings", "estimate"]
)
def test_a_documents_usage_runs_unchanged(snippet, model, script_folder):
    found = names(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(snippet, found)
    if "monitor" in found:
        found["monitor"].close()
    if "mfu" in found:
        assert 0 < found["mfu"] < 1


SETTINGS = [
    (
        "# configs/config_profiler_mfu.yaml\nmonitoring:\n  # FLOPs profiling频率 - 每500步使用profiler计算一次MFU\n "
        " flops_profile_freq: 500\n"
    ),
    (
        'monitoring:\n  mfu_calculation_mode: "smart"\n  performance_monitoring:\n    measure_flops_frequency: 500\n   '
        ' smart_mode:\n      initial_profiling: true\n      calibration_enabled: true\n      recalibration_frequency:'
        ' 1000\n'
    ),
    'monitoring:\n  mfu_calculation_mode: "profiler"\n  performance_monitoring:\n    measure_flops_frequency: 50\n',
    'monitoring:\n  mfu_calculation_mode: "estimate"\n  performance_monitoring:\n    measure_flops_frequency: 0\n',
    (
        'monitoring:\n  mfu_calculation_mode: "hybrid"\n  performance_monitoring:\n    hybrid_mode:\n     '
        ' hardware_counters_enabled: true\n      fallback_to_profiler: true\n'
    ),
    "monitor:\n  freq:\n    flops_profile_freq: 50  # 每50步计算一次FLOPs\n",
]


@pytest.mark.parametrize(
    "text", SETTINGS, ids=["profiler's frequency", "smart", "profiler", "estimate", "hybrid", "monitor"]
)
def test_a_documents_settings_are_understood(text, script_folder):
    path = script_folder / "settings.yaml"
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with mfu.Monitor(path, wandb=False) as monitor:
            assert monitor.settings and not monitor.warnings
    checked = subprocess.run(
        [sys.executable, "-m", "mfu", "config", "check", str(path)], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


# Digests of the snippets and settings as the documents have them. Whoever edits one above is told, even without the
# documents at hand.
AS_DOCUMENTED = "93a2864a41bda1da3f01889c24b1b39fa2da1ea6ed0326934e2d0ac332150503"


def test_every_usage_and_every_settings_above_is_a_documents_and_none_is_missing():
    usages = [USAGE_B, USAGE_B_TRAINING, USAGE_B_SETTINGS, USAGE_E]
    assert hashlib.sha256("\0".join([*usages, *SETTINGS]).encode()).hexdigest() == AS_DOCUMENTED
    if DOCUMENTS.is_dir():
        text = "".join(path.read_text() for path in sorted(DOCUMENTS.iterdir()))
        assert all(snippet.strip() in text for snippet in usages)
        assert re.findall(r"```yaml\n(.*?)```", text, re.S) == SETTINGS


@pytest.mark.parametrize(
    "options, expected",
    [
        (["--enable_mfu_tracking", "True"], (True, 10)),
        (["--enable_mfu_tracking", "False"], (False, 10)),
        (["--mfu_calculation_freq", "5"], (True, 5)),
        ([], (True, 10)),
    ],
)
def test_a_documents_options_are_a_scripts(options, expected, tmp_path):
    script = tmp_path / "open_instruct" / "grpo_fast.py"
    script.parent.mkdir()
    script.write_text(
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser\nfrom mfu.compat import"
        " MfuArgs\n\n@dataclass\nclass Args(MfuArgs):\n    learning_rate: float = 1e-4\n\n(args,) ="
        " HfArgumentParser(Args).parse_args_into_dataclasses()\nprint(args.enable_mfu_tracking,"
        " args.mfu_calculation_freq)\n"
    )
    done = subprocess.run(
        [sys.executable, "open_instruct/grpo_fast.py", *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=200,
        env=dict(os.environ),
    )
    assert done.stdout.split() == [str(each) for each in expected], done.stderr


def test_the_table_of_the_documents_names_is_whole():
    page = (Path(__file__).resolve().parents[3] / "docs" / "compat.md").read_text()
    for name in compat.__all__:
        assert f"`{name}" in page, name
        assert hasattr(compat, name)


def test_json_of_a_line(model, tmp_path):
    with compat.TrainingMonitor(tmp_path, log_file="other.json") as monitor:
        monitor.log_step(1, 0, torch.tensor(1.5), torch.tensor(0.5), 1e-4, None, True)
    line = json.loads((tmp_path / "other.json").read_text())
    assert (line["loss"], line["grad_norm"]) == (1.5, 0.5)
