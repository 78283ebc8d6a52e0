"""Training programs of many kinds, each reckoned by hand; the name of one is the first argument. The two linear
layers are those of programs.py."""

import os
import sys
import time

import torch
from programs import BATCH, IN, model, train
from torch import nn


def over(net, times=1):
    for _ in range(times):
        net(torch.randn(BATCH, IN)).sum().backward()


def marked():
    """Has no optimizer at all: the program's own range ends a step."""
    net = model()
    for _ in range(6):
        with torch.profiler.record_function("my step"):
            over(net)


def optimizers():
    """Fused, foreach and compiled optimizers, and one with a closure that runs the model twice in each step."""
    for options in ({"fused": True}, {"foreach": True}):
        net = model()
        optimizer = torch.optim.AdamW(net.parameters(), **options)
        for _ in range(3):
            over(net)
            optimizer.step()
        del optimizer
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=1, history_size=1)

    def closure():
        optimizer.zero_grad()
        loss = net(torch.randn(BATCH, IN)).square().sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)


def losses_in_one_node():
    """The loss is computed inside of what autograd sees as one node: a compiled graph, then a custom Function."""
    net = model()
    weight = net[0].weight
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    compiled = torch.compile(lambda rows: net(rows).square().sum(), backend="aot_eager")

    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx, rows, its):
            ctx.save_for_backward(rows)
            return (rows @ its.t()).sum()

        @staticmethod
        def backward(ctx, gradient):
            (rows,) = ctx.saved_tensors
            return None, gradient * torch.ones(weight.shape[0], BATCH) @ rows

    for loss in (compiled, lambda rows: Loss.apply(rows, weight)):
        for _ in range(4):
            loss(torch.randn(BATCH, IN)).backward()
            optimizer.step()
            optimizer.zero_grad()
        net.eval()
        with torch.no_grad():
            loss(torch.randn(BATCH, IN))
        net.train()


def compiled_optimizer():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step = torch.compile(optimizer.step, backend="eager")
    for _ in range(4):
        over(net)
        step()


def scaled():
    """The scaler skips two of five steps."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for number in range(5):
        optimizer.zero_grad()
        loss = net(torch.randn(BATCH, IN)).sum()
        scaler.scale(loss * float("inf") if number in (1, 3) else loss).backward()
        scaler.step(optimizer)
        scaler.update()


def gan():
    """Two optimizers step in turn; the first one ends the step. The discriminator's pass over the generator's output
    runs back through both."""
    generator, judge = nn.Linear(IN, IN), nn.Linear(IN, 1)
    first, second = torch.optim.Adam(judge.parameters()), torch.optim.Adam(generator.parameters())
    for _ in range(5):
        made = generator(torch.randn(BATCH, IN))
        first.zero_grad()
        (judge(torch.randn(BATCH, IN)) - judge(made.detach())).sum().backward()
        first.step()
        second.zero_grad()
        judge(made).sum().backward()
        second.step()


def rollouts():
    """Reinforcement learning: a step is four passes that only act and one that learns."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        with torch.inference_mode():
            for _ in range(4):
                net(torch.randn(BATCH, IN)).argmax(-1)
        over(net)
        optimizer.step()


def validated():
    """Validates after every second step, for twice as long as training."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for number in range(8):
        over(net)
        optimizer.step()
        if number % 2:
            net.eval()
            with torch.no_grad():
                for _ in range(8):
                    net(torch.randn(BATCH, IN))
            net.train()


def sharded(kind):
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    net = model()
    if kind == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        net = FullyShardedDataParallel(net, device_id=torch.device("cpu"))
    elif kind == "fully_shard":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (2,))
        for layer in (net[0], net[2], net):
            fully_shard(layer, mesh=mesh)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        net = parallelize_module(net, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(4, net)
    torch.distributed.destroy_process_group()
    time.sleep(0.5)  # torch's gloo thread ends its last work late, and the process would abort, even without mfu


def deleted():
    """The run directory is deleted while the program runs."""
    import shutil

    train(5)
    shutil.rmtree(os.environ["MFU_RUN_DIR"])
    train(5)
    print("done")


def emptied():
    """Both the directory and the memory that holds the counts are deleted."""
    import shutil

    train(5)
    shutil.rmtree(os.environ["MFU_REGION_DIR"])
    train(5)
    print("done")


if __name__ == "__main__":
    torch.set_num_threads(1)
    name = sys.argv[1]
    sharded(name) if name in ("fsdp", "fully_shard", "tensor_parallel") else globals()[name]()
