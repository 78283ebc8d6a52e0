"""torchrun: FullyShardedDataParallel around transformers' Llama, with checkpointing"""

NEEDS = ["transformers"]
ALONE = False
WHY = "the ranks are processes of their own"
EXPECT = {"steps": 2, "tokens": 2 * 2 * 2 * 16, "phases": {"train": 4}}
import os, sys, subprocess

if "LOCAL_RANK" not in os.environ:
    sys.exit(
        subprocess.call(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nproc-per-node",
                "2",
                "--standalone",
                __file__,
            ]
        )
    )
import functools
import torch, torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

dist.init_process_group("gloo")
torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=96,
    )
)
model = FSDP(
    model,
    auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer}),
    device_id=torch.device("cpu"),
    use_orig_params=True,
)
apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, LlamaDecoderLayer))
opt = torch.optim.AdamW(model.parameters())
for _ in range(2):
    ids = torch.randint(96, (2, 16))
    model(input_ids=ids, labels=ids).loss.backward()
    model.clip_grad_norm_(1.0)
    opt.step()
    opt.zero_grad()
dist.destroy_process_group()
