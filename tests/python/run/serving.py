"""A server made of parts of transformers: serving.py ENGINE END. It answers three requests, the last one with a single
token. Then a signal ends it."""

import os
import signal
import sys
import threading
import time

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

PROMPTS, NEW = (5, 9, 7), (6, 4, 1)


def ids(length):
    return [3 + place % 90 for place in range(length)]


def plain(model):
    def answer():
        for length, new in zip(PROMPTS, NEW):
            model.generate(torch.tensor([ids(length)]), max_new_tokens=new, do_sample=False)
        answered.set()
        time.sleep(600)  # waits for the next request

    answered = threading.Event()
    threading.Thread(target=answer, daemon=True).start()
    answered.wait()


def batching(model):
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    manager = model.init_continuous_batching(
        generation_config=GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0),
        continuous_batching_config=ContinuousBatchingConfig(max_batch_tokens=32, num_blocks=64))
    manager.start()
    for length, new in zip(PROMPTS, NEW):
        manager.add_request(ids(length), max_new_tokens=new)
        while (result := manager.get_result()) is None or not result.is_finished():
            pass


def main(engine, end):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        vocab_size=101, max_position_embeddings=256, eos_token_id=None, pad_token_id=0)).eval()
    {"plain": plain, "batching": batching}[engine](model)
    if end == "asked":
        signal.raise_signal(signal.SIGTERM)  # as uvicorn does when it has closed its sockets
    time.sleep(2)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
