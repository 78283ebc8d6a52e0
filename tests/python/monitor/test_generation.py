"""Tokens of real generation from several threads at once: none is lost, and the metrics of a period are right."""

import json
import threading

import pytest

import mfu
from mfu import compat

torch = pytest.importorskip("torch", reason="torch is not at hand")
transformers = pytest.importorskip("transformers", reason="transformers is not at hand")
DOCUMENTED = [
    "mfu/tokens_per_second",
    "mfu/flops_per_token",
    "mfu/mfu_percentage",
    "mfu/total_tokens_generated",
    "mfu/elapsed_time",
]


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
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return transformers.LlamaForCausalLM(config).eval()


class Counting(transformers.generation.streamers.BaseStreamer):
    """As an engine reports it: each put() is a decode step of one sequence."""

    def __init__(self, monitor, prompt):
        self.monitor, self.context, self.first, self.seen = monitor, prompt, True, 0

    def put(self, value):
        if self.first:  # the prompt
            self.first = False
            self.monitor.count_prefill([self.context])
            return
        self.context += 1
        self.seen += 1
        self.monitor.count_decode(1, self.context)

    def end(self):
        pass


def actors(count, work):
    made, threads = [0] * count, []

    def run(number):
        made[number] = work(number)

    for number in range(count):
        threads.append(threading.Thread(target=run, args=(number,)))
        threads[-1].start()
    return threads, made


def generated(model, rounds, take):
    """Real generation with sampling, so that sequences end at different lengths."""
    def work(number):
        total = 0
        for turn in range(rounds):
            prompt = torch.randint(3, 96, (2, 5 + number))
            with torch.no_grad():
                out = model.generate(
                    prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=6 + turn, do_sample=True
                )
            new = int((out[:, prompt.shape[1]:] != 0).sum())
            take(new)
            total += new
        return total

    return work


def read(folder):
    return [json.loads(line) for line in open(folder / "training_log.json")]


def test_no_token_of_four_threads_is_lost(model, tmp_path):
    with mfu.Monitor(
        model=model, mode="estimate", peak=1e12, output_dir=tmp_path, mfu_calculation_freq=1, wandb=False
    ) as monitor:
        threads, made = actors(4, generated(model, 4, monitor.count_tokens))
        step = 0
        while any(thread.is_alive() for thread in threads):
            monitor.log_step(step, batch=1, seq=8)
            step += 1
            threads[0].join(0.01)  # does not pause once that thread has ended
        for thread in threads:
            thread.join()
        monitor.flush()
        monitor.log_step(step, batch=1, seq=8)
    lines = read(tmp_path)
    assert sum(made) > 50 and sum(line.get("mfu/total_tokens_generated", 0) for line in lines) == sum(made)
    periods = [line for line in lines if "mfu/total_tokens_generated" in line]
    for line in periods:
        assert all(name in line for name in DOCUMENTED)
        assert line["mfu/tokens_per_second"] == pytest.approx(
            line["mfu/total_tokens_generated"] / line["mfu/elapsed_time"]
        )
        assert line["mfu/mfu_percentage"] == pytest.approx(
            100 * line["mfu/flops_per_token"] * line["mfu/tokens_per_second"] / 1e12
        )


def test_prompts_and_new_tokens_are_counted_with_their_context(model, tmp_path):
    prompt_length, new = 9, 12
    with mfu.Monitor(
        model=model, mode="estimate", peak=1e12, output_dir=tmp_path, mfu_calculation_freq=1, wandb=False
    ) as monitor:
        def work(number):
            streamer = Counting(monitor, prompt_length)
            prompt = torch.randint(3, 96, (1, prompt_length))
            with torch.no_grad():
                model.generate(
                    prompt,
                    attention_mask=torch.ones_like(prompt),
                    max_new_tokens=new,
                    min_new_tokens=new,
                    do_sample=True,
                    streamer=streamer,
                )
            return streamer.seen

        threads, made = actors(3, work)
        for thread in threads:
            thread.join()
        monitor.log_step(0, batch=1, seq=8)
    (line,) = read(tmp_path)
    assert made == [new] * 3 and line["mfu/total_tokens_generated"] == 3 * new
    need = 3 * mfu.flops(model, phase="prefill", batch=1, seq=prompt_length).model_flop
    need += 3 * sum(
        mfu.flops(model, phase="decode", batch=1, context=prompt_length + at).model_flop for at in range(1, new + 1)
    )
    assert line["mfu/flops_per_token"] == pytest.approx(need / (3 * new), rel=0.03)


def test_the_documented_tracker_with_real_generation(model):
    tracker = compat.TokenTracker()
    threads, made = actors(4, generated(model, 3, tracker.mfu_tokens_generated.append))
    periods = []
    while any(thread.is_alive() for thread in threads):
        threads[0].join(0.02)
        periods.append(tracker.take())
    for thread in threads:
        thread.join()
    flop = compat.calculate_model_flops_per_token(model, None)
    periods.append(tracker.take(flop, "llama-0.0001b"))
    assert sum(period["mfu/total_tokens_generated"] for period in periods) == sum(made)
    assert set(periods[-1]) == set(DOCUMENTED)
