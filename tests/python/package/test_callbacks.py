"""MFU in the logs of training frameworks, tested with the frameworks themselves."""

import os
import sys

import pytest

torch = pytest.importorskip("torch")
mfu = pytest.importorskip("mfu")
os.environ.setdefault("OMP_NUM_THREADS", "1")

KEYS = {"perf/mfu", "perf/mfu_percent", "perf/hfu", "perf/step_time", "perf/steps_per_second", "perf/flop_per_s"}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def llama():
    transformers = pytest.importorskip("transformers", reason="transformers is not at hand")
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=112,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=96,
    )
    return transformers.LlamaForCausalLM(config)


def test_transformers_trainer(tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not at hand")
    model = llama()
    import transformers

    rows = [{"input_ids": torch.randint(0, 96, (20,)), "labels": torch.randint(0, 96, (20,))} for _ in range(24)]
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        max_steps=6,
        logging_steps=3,
        report_to=[],
        per_device_train_batch_size=2,
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=rows)
    callback = mfu.callbacks.attach(trainer, peak=1e12)
    trainer.train()
    logged = [row for row in trainer.state.log_history if "loss" in row]
    assert len(logged) == 2 and all(KEYS | {"perf/tokens_per_second"} <= set(row) for row in logged)
    counted, need = callback.meter.counted, mfu.flops(model, batch=2, seq=20)
    assert counted.model_flop == 6 * need.model_flop and (counted.tokens, counted.steps) == (6 * 40, 6)
    for row in logged:
        assert row["perf/mfu"] * row["perf/step_time"] * 1e12 == pytest.approx(need.model_flop)


def test_transformers_trainer_by_the_callbacks_argument(tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not at hand")
    model = llama()
    import transformers

    rows = [{"input_ids": torch.randint(0, 96, (20,)), "labels": torch.randint(0, 96, (20,))} for _ in range(4)]
    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=2, logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no"
    )
    trainer = transformers.Trainer(
        model, arguments, train_dataset=rows, callbacks=[mfu.callbacks.TrainerCallback(peak=1e12)]
    )
    trainer.train()
    assert KEYS <= set(trainer.state.log_history[0])


def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not at hand")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(16, 8)

        def training_step(self, batch, index):
            return self.layer(batch).pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    loader = torch.utils.data.DataLoader(torch.randn(24, 16), batch_size=4)
    callback = mfu.callbacks.LightningCallback(peak=1e12)
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        log_every_n_steps=3,
        callbacks=[callback],
        default_root_dir=tmp_path,
        enable_model_summary=False,
    )
    trainer.fit(Module(), loader)
    assert KEYS <= set(trainer.callback_metrics)
    assert callback.meter.counted.model_flop == 6 * 2 * 2 * 4 * 16 * 8


def test_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not at hand")
    accelerator = accelerate.Accelerator(cpu=True)
    logged = []
    accelerator.log = lambda values, step: logged.append((step, values))
    net = torch.nn.Linear(16, 8)
    net, optimizer, loader = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=0.1), torch.utils.data.DataLoader(torch.randn(24, 16), batch_size=4)
    )
    meter = mfu.callbacks.AcceleratorMeter(accelerator, every=3, peak=1e12)
    for batch in loader:
        accelerator.backward(net(batch).pow(2).mean())
        optimizer.step()
        optimizer.zero_grad()
        meter.step()
    meter.stop()
    assert [step for step, _ in logged] == [3, 6] and all(KEYS <= set(values) for _, values in logged)
    assert meter.meter.counted.model_flop == 6 * 2 * 2 * 4 * 16 * 8


def test_the_peak_is_the_devices_own_and_an_unknown_one_is_said():
    meter = mfu.callbacks.Meter()
    meter.start()
    torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    metrics = meter.window(1)
    meter.stop()
    cpu = mfu.machine().devices[-1]["fp32"].flop_per_s
    # the clock is measured again
    assert metrics["perf/flop_per_s"] / metrics["perf/mfu"] == pytest.approx(cpu, rel=0.5)
    unknown = mfu.callbacks.Meter(device="a device nobody made")
    unknown.start()
    torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    with pytest.warns(RuntimeWarning, match="no MFU"):
        metrics = unknown.window(1)
    unknown.stop()
    assert "perf/mfu" not in metrics and metrics["perf/flop_per_s"] > 0


def test_frameworks_are_not_imported_for_nothing():
    import subprocess

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import mfu.callbacks, sys; print([name for name in ('torch', 'transformers', 'lightning') if name in"
                " sys.modules])"
            ),
        ],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[]\n", done.stderr


def test_transformers_trainer_explains_steps_and_keeps_them_out_of_its_rates(tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not at hand")
    model = llama()
    import transformers

    rows = [{"input_ids": torch.randint(0, 96, (20,)), "labels": torch.randint(0, 96, (20,))} for _ in range(60)]
    arguments = transformers.TrainingArguments(str(tmp_path), max_steps=24, logging_steps=1, report_to=[], use_cpu=True,
                                               per_device_train_batch_size=2, disable_tqdm=True, save_strategy="no")
    trainer = transformers.Trainer(model, arguments, train_dataset=rows)
    callback = mfu.callbacks.attach(trainer, peak=1e12, explain=3)
    trainer.train()
    explained = callback.explained
    assert explained.problem == "" and explained.findings, explained.problem
    rank = explained.explanation.ranks[0]
    need = mfu.flops(model, batch=2, seq=20)
    assert rank.window.steps == 3 and rank.model_flop == 3 * need.model_flop
    assert sum(line["duration_ns"] for line in rank.ledger) == rank.window.duration_ns
    silent = [row["step"] for row in trainer.state.log_history if "loss" in row and "perf/mfu" not in row]
    # The window begins inside the end of one step and ends inside the end of another. It excludes its own steps and the
    # one that pays for the end.
    assert 4 <= len(silent) <= 5 and silent == list(range(silent[0], silent[-1] + 1))


def test_lightning_explains_steps(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not at hand")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(16, 4)

        def training_step(self, batch, index):
            return self.layer(batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = mfu.callbacks.LightningCallback(peak=1e12, explain=3)
    trainer = lightning.Trainer(max_steps=20, accelerator="cpu", callbacks=[callback], logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                                default_root_dir=str(tmp_path))
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(200, 16), batch_size=8))
    assert callback.explained.problem == ""
    rank = callback.explained.explanation.ranks[0]
    # A linear layer whose input needs no gradient: forward and the gradient of the weights.
    assert rank.window.steps == 3 and rank.model_flop == 3 * 2 * (2 * 8 * 16 * 4)


def test_a_block_that_ends_too_early_says_so_and_raises_nothing():
    with pytest.warns(RuntimeWarning, match="no step was explained"), mfu.explain_steps(3) as explained:
        pass
    assert explained.findings == [] and "no step was explained" in explained.problem
