"""Reinforcement learning as in GRPO: actors generate in threads, a reference model scores, the learner trains.

    python examples/python/rl_loop.py [OUTPUT_DIR]

The threads report the tokens that they generate (metrics mfu/…, here every 2 steps). The learner's steps have the
metrics perf/…. mfu.observe() tells prefill, decode, training and the reference apart (mfu/decode/… and so on).
"""

import copy
import os
import queue
import sys
import threading

import torch
import transformers

import mfu

PROMPT, NEW, GROUP, STEPS, ACTORS = 12, 20, 4, 6, 2


def act(actor, monitor, made, stop):
    """Runs in a thread, as an engine does: generates groups of answers to a prompt."""
    while not stop.is_set():
        prompt = torch.randint(3, 512, (1, PROMPT)).repeat(GROUP, 1)
        monitor.count_prefill([PROMPT] * GROUP)
        with torch.no_grad():
            answers = actor.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW, do_sample=True)
        for at in range(PROMPT, answers.shape[1]):
            monitor.count_decode(GROUP, GROUP * at)
        while not stop.is_set():
            try:
                made.put(answers, timeout=0.1)
                break
            except queue.Full:
                continue


def log_probabilities(model, answers):
    logits = model(input_ids=answers).logits[:, :-1]
    return torch.log_softmax(logits, -1).gather(-1, answers[:, 1:, None]).squeeze(-1)


def learn(learner, reference, answers, optimizer):
    with torch.no_grad():
        anchor = log_probabilities(reference, answers)
        reward = (answers[:, PROMPT:] % 2).float().mean(1)  # the task is to generate odd tokens
        advantage = (reward - reward.mean()) / (reward.std() + 1e-4)
    ours = log_probabilities(learner, answers)
    penalty = torch.exp(anchor - ours) - (anchor - ours) - 1
    loss = (-(advantage[:, None] * ours) + 0.04 * penalty)[:, PROMPT - 1:].mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def main():
    output_dir = sys.argv[1] if len(sys.argv) > 1 else "outputs"
    mfu.observe(os.path.join(output_dir, "observed"))
    config = transformers.LlamaConfig(
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    learner = transformers.LlamaForCausalLM(config)
    reference, actor = copy.deepcopy(learner).eval(), copy.deepcopy(learner).eval()
    optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-4)
    made, stop = queue.Queue(maxsize=ACTORS), threading.Event()
    # Counting would include the operators of the actors' threads, so the learner's FLOPs are estimated.
    with mfu.Monitor(
        model=learner, mode="estimate", device="auto", dtype="fp32", output_dir=output_dir, mfu_calculation_freq=2
    ) as monitor:
        actors = [threading.Thread(target=act, args=(actor, monitor, made, stop)) for _ in range(ACTORS)]
        for thread in actors:
            thread.start()
        for step in range(STEPS):
            answers = made.get()
            with monitor.step(step, batch=len(answers), seq=answers.shape[1]) as at:
                at.loss = learn(learner, reference, answers, optimizer)
            actor.load_state_dict(learner.state_dict())
        stop.set()
        for thread in actors:
            thread.join()
        monitor.flush()
        learned = monitor.last_report()
        monitor.log_step(STEPS, batch=1, seq=1)  # this ends the last period
    for phase in ("prefill", "decode", "train", "forward"):
        if f"mfu/{phase}/tokens" in learned:
            tokens, seconds = learned[f"mfu/{phase}/tokens"], learned[f"mfu/{phase}/time"]
            print(f"{phase}: {tokens:.0f} tokens in {seconds:.3f} s")
    print(f"learner: {learned['perf/tokens_per_second']:.0f} tokens/s, MFU {learned['perf/mfu_percent']:.1f}%")


if __name__ == "__main__":
    main()
