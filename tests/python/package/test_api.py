"""mfu.flops, peak, utilization, plan and convert give the same answers as the command line. Errors are exceptions, and
integers have no limit."""

import json
import pathlib
import pickle
import subprocess
import sys
import threading

import pytest

mfu = pytest.importorskip("mfu")

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def command(*arguments):
    done = subprocess.run([sys.executable, "-m", "mfu", *map(str, arguments), "--json"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    return path


@pytest.mark.parametrize(
    "options, arguments",
    [
        ({"batch": 8, "seq": 4096}, ["--batch", 8, "--seq", 4096]),
        ({"phase": "decode", "batch": 32, "context": 4096}, ["--phase", "decode", "--batch", 32, "--context", 4096]),
        ({"lengths": [5, 700, 31]}, ["--lengths", "5,700,31"]),
        ({"convention": "all", "seq": 128}, ["--convention", "all", "--seq", 128]),
        ({"lora": (16, ["q_proj", "v_proj"])}, ["--lora", "16:q_proj,v_proj"]),
        (
            {"frozen": "model.layers.1?.*", "recompute": "full"},
            ["--frozen", "model.layers.1?.*", "--recompute", "full"],
        ),
        (
            {"device": "NVIDIA H100 80GB HBM3", "devices": 8, "tokens_per_second": 35008, "seq": 8192},
            ["--device", "NVIDIA H100 80GB HBM3", "--devices", 8, "--tokens-per-second", 35008, "--seq", 8192],
        ),
        (
            {"peak": 312e12, "step_seconds": 2.5, "params": 8030261248, "tree": True},
            ["--peak", "312e12", "--step-seconds", 2.5, "--params", 8030261248, "--tree"],
        ),
    ],
)
def test_flops_says_what_the_command_says(config, options, arguments):
    status, said = command("flops", config, *arguments)
    answer = mfu.flops(config, **options)
    if said.get("utilization"):
        said["utilization"]["peak_source"] = answer.utilization.peak_source
    assert status == 0 and dict(answer) == said


def test_a_config_is_a_path_a_folder_a_dict_or_a_transformers_object(config):
    whole = mfu.flops(str(config), seq=64).model_flop
    assert mfu.flops(config.parent, seq=64).model_flop == whole
    assert mfu.flops(LLAMA, seq=64).model_flop == whole
    transformers = pytest.importorskip("transformers", reason="transformers is not at hand")
    small = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=112,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=96,
    )
    model = transformers.LlamaForCausalLM(small)
    answer = mfu.flops(model, seq=64)
    assert answer.model.architecture == "LlamaForCausalLM"
    assert answer.model.parameters_total == sum(weight.numel() for weight in model.parameters())
    assert answer.model_flop == mfu.Model(small, architecture="LlamaForCausalLM").flops(seq=64).model_flop
    assert mfu.Model(LLAMA, set={"num_hidden_layers": 16}).parameters.total < mfu.Model(LLAMA).parameters.total


def test_a_shape_is_enough():
    model = mfu.Model.of_shape(layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256)
    status, said = command(
        "flops", "--layers", 80, "--hidden", 8192, "--heads", 64, "--kv-heads", 8, "--ffn", 28672, "--vocab", 128256
    )
    assert status == 0 and dict(model.flops()) == said


def test_integers_have_no_bound():
    model = mfu.Model.of_shape(layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256)
    one, many = model.flops(batch=1, seq=4096), model.flops(batch=10**9, seq=4096)
    assert many.model_flop == one.model_flop * 10**9 > 2**64
    assert mfu.utilization(3 * 10**25, 10**6, peak=989.4e12, devices=16384).contradictions
    assert mfu.plan(flop=2**100, peak=1e15, devices=1).total_flop == 2**100
    with pytest.raises(mfu.InvalidArgument):
        mfu.utilization(2**128, 1, peak=1e15)
    with pytest.raises(mfu.InvalidArgument):
        mfu.utilization(-1, 1, peak=1e15)


def test_peaks():
    device = mfu.peak("NVIDIA H100 80GB HBM3")
    assert device["bf16"].flop_per_s == 989.4e12 and device.name == "H100-SXM5-80GB"
    with pytest.raises(KeyError):
        device["fp4"]
    with pytest.raises(ValueError, match="H100-PCIe"):
        mfu.peak("h100")
    with pytest.raises(LookupError):
        mfu.peak("a device nobody made")
    assert len(mfu.devices()) > 100 and len(mfu.devices("h100")) > 3
    assert mfu.machine().devices[-1].device.kind == "cpu"


def test_utilization_plan_and_convert(config):
    used = mfu.utilization(
        989_400_000_000_000, 2, device="NVIDIA H100 80GB HBM3", hardware_flop=2 * 989_400_000_000_000
    )
    assert (used.mfu, used.hfu, used.rating) == (0.5, 1.0, "good")
    status, said = command(
        "plan",
        config,
        "--seq",
        8192,
        "--tokens",
        "15e12",
        "--device",
        "NVIDIA H100 80GB HBM3",
        "--devices",
        "512,1024",
        "--price",
        2.5,
    )
    plan = mfu.plan(config, seq=8192, tokens=15e12, device="NVIDIA H100 80GB HBM3", devices=[512, 1024], price=2.5)
    assert status == 0 and (plan.total_flop, plan.plans) == (said["total_flop"], said["plans"])
    status, said = command("convert", "45.2%", "--to", "megatron", config, "--seq", 8192)
    assert mfu.convert(0.452, config, to="megatron", seq=8192).mfu_to == said["mfu_to"]
    assert "palm" in mfu.conventions() and "llama" in mfu.model_types()


@pytest.mark.parametrize("call, kind, code", [
    (lambda: mfu.flops("no/such/config.json"), FileNotFoundError, "not_found"),
    (lambda: mfu.flops({"model_type": "of_nobody"}), ValueError, "unsupported"),
    (lambda: mfu.flops(LLAMA, convention="palmm"), LookupError, "not_found"),
    (lambda: mfu.flops(LLAMA, phase="rest"), ValueError, "invalid_argument"),
    (lambda: mfu.flops(LLAMA, batch=0), ValueError, "invalid_argument"),
    (lambda: mfu.flops(LLAMA, batch=-1), ValueError, "invalid_argument"),
    (lambda: mfu.flops(LLAMA, seq=1.5), ValueError, "invalid_argument"),
    (lambda: mfu.flops(LLAMA, lengths=[]), ValueError, "invalid_argument"),
    (lambda: mfu.flops(LLAMA, lengths=[1, "2"]), ValueError, "invalid_argument"),
    (lambda: mfu.flops(LLAMA, step_seconds=1), ValueError, "invalid_argument"),
    (lambda: mfu.flops(LLAMA, step_seconds=float("nan"), peak=1e12), ValueError, "invalid_argument"),
    (lambda: mfu.flops(LLAMA, peak=-1, step_seconds=1), ValueError, "invalid_argument"),
    (lambda: mfu.flops(LLAMA, lora=0), ValueError, "invalid_argument"),
    (lambda: mfu.flops(7), ValueError, "invalid_argument"),
    (lambda: mfu.Model.of_shape(layers=-1, hidden=64, heads=4), ValueError, "invalid_argument"),
    (lambda: mfu.Model.of_shape(layers=1, hidden=64, heads=4, mlp="round"), ValueError, "invalid_argument"),
    (lambda: mfu.utilization(1, 0, peak=1e12), ValueError, "invalid_argument"),
    (lambda: mfu.utilization(1, 1), ValueError, "invalid_argument"),
    (lambda: mfu.plan(), ValueError, "invalid_argument"),
    (lambda: mfu.plan(flop=1e20, mfu=2, peak=1e12), ValueError, "invalid_argument"),
    (lambda: mfu.convert(3, LLAMA), ValueError, "invalid_argument"),
])
def test_bad_input_is_an_exception_with_a_code_and_a_sentence(call, kind, code):
    with pytest.raises(mfu.Error) as caught:
        call()
    assert isinstance(caught.value, kind) and caught.value.code == code and len(str(caught.value)) > 10


def test_a_config_that_is_not_json_is_malformed(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": ')
    with pytest.raises(mfu.Malformed, match="config.json:1"):
        mfu.flops(tmp_path)


def test_answers_and_models_pickle_and_have_attributes():
    model = mfu.Model(LLAMA)
    answer = model.flops(seq=64)
    assert pickle.loads(pickle.dumps(model)).flops(seq=64) == answer == pickle.loads(pickle.dumps(answer))
    assert pickle.loads(pickle.dumps(answer)).model.parameters_total == answer["model"]["parameters_total"]
    assert "model_flop" in dir(answer) and "8030261248" in repr(model)
    with pytest.raises(AttributeError, match="model_flop"):
        answer.modelflop


def test_threads_ask_at_once():
    model, found = mfu.Model(LLAMA), []

    def ask():
        found.append([model.flops(seq=length).model_flop for length in range(1, 60)])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 8 and all(each == found[0] for each in found)


def test_importing_loads_neither_torch_nor_the_native_library():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import sys, mfu; print(sorted(name for name in sys.modules if name in ('torch', 'numpy',"
                " 'mfu._core'))); dir(mfu)"
            ),
        ],
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_package_is_typed(tmp_path):
    """Checks only our own files with mypy, not torch's."""
    mypy = pytest.importorskip("mypy.api", reason="mypy is not at hand")
    program = tmp_path / "program.py"
    program.write_text(
        "import mfu\nx: int = mfu.flops('c').tokens\ny: str = mfu.flops('c').tokens\nmfu.flops('c', nonsense=1)\nwith"
        " mfu.Monitor('a.yaml', mode='smart') as monitor:\n    monitor.log_step(1, loss=2.0, batch=8, seq=1024)\n   "
        " with monitor.step(2) as at:\n        at.loss = 1.0\n"
    )
    folder = pathlib.Path(mfu.__file__).parent
    files = [str(path) for path in sorted(folder.glob("*.py")) if path.name != "__main__.py"]
    out, errors, _ = mypy.run(
        [
            "--strict",
            "--cache-dir",
            str(tmp_path / "cache"),
            "--follow-imports=skip",
            "--no-site-packages",
            "--disable-error-code=import-not-found",
            "--disable-error-code=no-any-return",
            "--disable-error-code=unused-ignore",
            "--disable-error-code=type-arg",
            str(program),
            str(folder / "_core.pyi"),
            *files,
        ]
    )
    told = [line for line in out.splitlines() if "error:" in line]
    assert len(told) == 2 and "Incompatible types" in told[0] and "nonsense" in told[1], out + errors


def test_a_python_without_torch_has_all_that_needs_none(config, tmp_path):
    trace = pathlib.Path(__file__).resolve().parents[2] / "golden" / "kineto_small.json"
    program = f"""
import sys
sys.modules["torch"] = None
import mfu
print(mfu.flops({str(config)!r}, seq=64).model_flop)
print(mfu.explain({str(trace)!r}).ledger is not None)
monitor = mfu.Monitor(model={str(config)!r}, output_dir={str(tmp_path)!r}, peak=1e12)
for step in range(3):
    monitor.log_step(step=step, batch=1, seq=64)
monitor.close()
print(monitor.status()["logged"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    flop, explained, logged = done.stdout.splitlines()
    assert int(flop) == mfu.flops(config, seq=64).model_flop and (explained, logged) == ("True", "3")
