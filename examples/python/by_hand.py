"""A training loop written by hand, with the monitor in it.

    python examples/python/by_hand.py [OUTPUT_DIR]

The monitor counts operators in the first step and in every 500th; for the other steps it uses calibrated FLOPs.
"""

import sys

import torch
import transformers

import mfu

output_dir = sys.argv[1] if len(sys.argv) > 1 else "outputs"
config = transformers.LlamaConfig(
    hidden_size=128,
    intermediate_size=352,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=512,
)
model = transformers.LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

with mfu.Monitor(
    model=model, device="auto", dtype="fp32", output_dir=output_dir, tensorboard=f"{output_dir}/board"
) as monitor:
    for step in range(20):
        ids = torch.randint(0, 512, (4, 64))
        mask = torch.ones_like(ids)
        mask[0, 40:] = 0  # this row is shorter: only its own length counts
        with monitor.step(step, epoch=0, attention_mask=mask) as at:
            loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss
            loss.backward()
            at.grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            at.loss = loss
            at.learning_rate = 1e-3
    monitor.flush()
    report = monitor.last_report()

print(
    f"step {report['step']}: {report['perf/tokens_per_second']:.0f} tokens/s, MFU {report['perf/mfu_percent']:.1f}%,"
    f" FLOPs {report['source']}"
)
