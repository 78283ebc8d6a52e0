"""One rank of a training job with gloo; run by test_ranks.py: MODE FOLDER [die]."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import transformers

import mfu

mode, folder = sys.argv[1:3]
die = len(sys.argv) > 3
rank = int(os.environ["RANK"])
if os.environ.get("MASTER_PORT"):  # lives in rank 0, and dies with it
    # Debian's torch is built without libuv.
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, is_master=rank == 0, use_libuv=False)
else:
    store = dist.FileStore(os.path.join(folder, "store"), 2)  # outlives rank 0
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
torch.manual_seed(0)
config = transformers.LlamaConfig(
    hidden_size=64,
    intermediate_size=112,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=96,
)
model = transformers.LlamaForCausalLM(config)

collectives = []
for name in (
    "all_reduce",
    "broadcast",
    "all_gather",
    "barrier",
    "gather",
    "scatter",
    "reduce",
    "all_gather_object",
    "broadcast_object_list",
    "send",
    "recv",
    "monitored_barrier",
):
    setattr(dist, name, lambda *given, called=name, **named: collectives.append(called))

measured, heard = [], False
monitor = mfu.Monitor(model=model, mode=mode, peak=1e12, output_dir=folder, wandb=False, flops_profile_freq=5)
deadline = time.monotonic() + 90
step = 0
while time.monotonic() < deadline:
    seq = 16 if rank == 0 else 32 if mode == "smart" else 16
    with monitor.step(step, batch=2, seq=seq) as at:
        ids = torch.ones(2, seq, dtype=torch.long)
        model(input_ids=ids, labels=ids).loss.backward()
        model.zero_grad()
    measured.append(at.measured)
    step += 1
    time.sleep(0.02)
    if rank == 0 and die and step == 20:
        time.sleep(1)
        os._exit(9)
    if rank == 0 and not die and os.path.exists(os.path.join(folder, "heard")):
        break
    if rank == 1:
        monitor.flush()
        report = monitor.last_report() or {}
        heard = heard or report.get("source") in ("calibrated", "counted")
        gone = any("rank 0" in each for each in monitor.warnings)
        if heard and not os.path.exists(os.path.join(folder, "heard")):
            open(os.path.join(folder, "heard"), "w").close()
        if (gone if die else heard and step > 20):
            break
print(
    json.dumps(
        {
            "rank": rank,
            "measured": sum(measured),
            "collectives": collectives,
            "warnings": monitor.warnings,
            "steps": step,
        }
    ),
    flush=True,
)
if rank == 1 and die:  # continues without rank 0
    for step in range(step, step + 3):
        monitor.log_step(step, batch=2, seq=32, step_seconds=0.1)
monitor.close()
os._exit(0)  # otherwise gloo waits for its peers
