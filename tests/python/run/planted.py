"""Small trainings, each slow for one reason: python planted.py NAME [STEPS]."""

import os
import sys
import threading
import time

import torch
from torch import nn

STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 12


def loop(model, batches, optimizer=None, loss=lambda out: out.square().mean(), each=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=1e-3)
    for step, batch in enumerate(batches):
        if step == STEPS:
            break
        value = loss(model(batch))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if each:
            each(model, value)


def wide(width=768, layers=3):
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])


def endless(*shape):
    batch = torch.randn(*shape)
    while True:
        yield batch


class Rows(torch.utils.data.Dataset):
    def __init__(self, work):
        self.work = work

    def __len__(self):
        return 100000

    def __getitem__(self, index):
        return self.work(index)


def slow_loader():
    """Waits for each row, as for a disk."""
    rows = Rows(lambda index: (time.sleep(0.002), torch.ones(256))[1])
    loop(wide(256, 2), torch.utils.data.DataLoader(rows, batch_size=16))


def preprocessing():
    """Each row is computed in Python."""
    rows = Rows(
        lambda index: torch.tensor([float(sum(range(400)) % 7 + i) for i in range(256)]) if sum(range(60000)) else None
    )
    loop(wide(256, 2), torch.utils.data.DataLoader(rows, batch_size=16))


def few_workers():
    """One worker that waits for each row, as if for a disk."""
    rows = Rows(lambda index: (time.sleep(0.004), torch.ones(256))[1])
    loop(wide(256, 2), torch.utils.data.DataLoader(rows, batch_size=16, num_workers=1, prefetch_factor=2))


def busy_workers():
    """As many workers as cores, and each computes its rows."""
    rows = Rows(lambda index: torch.tensor([float(sum(range(60000)) % 7)] * 256))
    workers = len(os.sched_getaffinity(0))
    loop(wide(256, 2), torch.utils.data.DataLoader(rows, batch_size=64, num_workers=workers))


def one_worker():
    """One worker that computes, while the training has as many threads as there are cores."""
    rows = Rows(lambda index: torch.tensor([float(sum(range(30000)) % 7)] * 768))
    loop(wide(768, 3), torch.utils.data.DataLoader(rows, batch_size=48, num_workers=1))


def double():
    """Computes in fp64 by mistake, because numpy makes fp64."""
    model = wide(512, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    loop(model, (batch.double() for batch in endless(384, 512)), optimizer)


def chains():
    """Runs element-wise operators one after another on large tensors."""

    class Chains(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x):
            x = self.layer(x)
            for _ in range(6):
                x = (x * 1.01 + 0.1).sigmoid() - 0.5
            return x

    model = Chains()
    loop(model, endless(16384, 64), torch.optim.SGD(model.parameters(), lr=1e-3, fused=True))


def thin():
    """Sends one row through wide layers, so that all weights are read for a single vector."""
    model = wide(2560, 2)
    loop(model, endless(1, 2560), torch.optim.SGD(model.parameters(), lr=1e-3, fused=True))


def recompiling():
    """Each batch has another length, and the graph is compiled again for each."""
    model = wide(64, 2)
    config = torch._dynamo.config
    setattr(config, "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit", 64)  # torch 2.6
    compiled = torch.compile(model, dynamic=False, backend="eager")
    loop(compiled, (torch.ones(8 + number, 64) for number in range(100)), torch.optim.SGD(model.parameters(), lr=1e-3))


def one_thread():
    torch.set_num_threads(1)
    loop(wide(), endless(512, 768))


def optimizer():
    """Updates three hundred small tensors one after another."""
    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(150)])
    loop(model, endless(8, 32), torch.optim.AdamW(model.parameters(), foreach=False))


def by_hand():
    """Adam, written out for each of a hundred tensors, without torch.optim."""
    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(50)])
    moments = [(torch.zeros_like(each), torch.zeros_like(each)) for each in model.parameters()]

    def update(model, value):
        with torch.no_grad():
            for weight, (mean, square) in zip(model.parameters(), moments):
                mean.mul_(0.9).add_(weight.grad, alpha=0.1)
                square.mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
                weight -= 1e-3 * (mean / 0.9) / ((square / 0.99).sqrt() + 1e-8)

    batch = torch.randn(8, 32)
    for _ in range(STEPS):
        value = model(batch).square().mean()
        model.zero_grad()
        value.backward()
        update(model, value)


def rows():
    """Computes the loss of each row in a loop."""
    model, weights = wide(32, 2), torch.rand(96)

    def loss(out):
        return sum(weights[i] * out[i].square().mean() for i in range(len(out)))

    loop(model, endless(96, 32), torch.optim.SGD(model.parameters(), lr=1e-3, fused=True), loss)


def tiny():
    """Runs hundreds of operators on a handful of numbers."""

    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(16))

        def forward(self, x):
            for _ in range(200):
                x = (x * self.weight + 0.1).tanh()
            return x

    model = Tiny()
    loop(model, endless(4, 16), torch.optim.SGD(model.parameters(), lr=1e-3, fused=True))


def checkpointing():
    from torch.utils.checkpoint import checkpoint

    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = wide(768, 4)

        def forward(self, x):
            return checkpoint(self.body, x, use_reentrant=False)

    model = Again()
    loop(model, endless(512, 768).__iter__(), torch.optim.SGD(model.parameters(), lr=1e-3, fused=True))


def items():
    """Reads values one by one in each step."""

    def each(model, value):
        weights = model[0].weight.detach()[:8, :50]
        sum(float(weights[i, j]) for i in range(8) for j in range(50))

    model = wide(64, 2)
    loop(model, endless(8, 64), torch.optim.SGD(model.parameters(), lr=1e-3, fused=True), each=each)


def branches():
    """In every layer, Python branches on a tensor's value."""

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(40))

        def forward(self, x):
            for layer in self.layers:
                y = layer(x)
                x = y if y.abs().max() > 100 else y.tanh()
                if torch.isnan(x).any():
                    raise ValueError(x)
            return x

    model = Branches()
    loop(model, endless(8, 32), torch.optim.SGD(model.parameters(), lr=1e-3, fused=True))


def optimal():
    model = wide(1536, 3)
    loop(model, endless(1024, 1536), torch.optim.SGD(model.parameters(), lr=1e-3, fused=True))


def accumulation():
    """Four passes a step."""
    model, batches = wide(768, 3), endless(512, 768)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    for _ in range(STEPS):
        for _ in range(4):
            model(next(batches)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def sleeping():
    loop(wide(256, 2), endless(64, 256), each=lambda model, value: time.sleep(0.05))


def compiled():
    model = wide(512, 3)
    loop(torch.compile(model), endless(256, 512), torch.optim.SGD(model.parameters(), lr=1e-3, fused=True))


def closure():
    """Forward and backward run inside the optimizer's step, as in Lightning."""
    model, batch = wide(768, 3), torch.randn(512, 768)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def again():
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(again)


def ranks():
    """The second rank has more to do than the first."""
    torch.distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    model = nn.parallel.DistributedDataParallel(wide(256, 2))
    slow = torch.distributed.get_rank() == 1
    loop(
        model,
        endless(256, 256),
        each=lambda m, v: [torch.randn(400, 400) @ torch.randn(400, 400) for _ in range(40)] if slow else None,
    )
    torch.distributed.destroy_process_group()
    time.sleep(0.5)  # torch's gloo thread ends its last work late, and the process would abort, even without mfu


def gradients():
    """Each step sends thirty megabytes of gradients and computes little."""
    torch.distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    model = nn.parallel.DistributedDataParallel(wide(2048, 2))
    loop(model, endless(4, 2048), torch.optim.SGD(model.parameters(), lr=1e-3, fused=True))
    torch.distributed.destroy_process_group()
    time.sleep(0.5)  # as in ranks()


def own_profiler():
    from torch.profiler import profile, schedule

    with profile(schedule=schedule(wait=4, warmup=1, active=2, repeat=1)) as profiler:
        loop(wide(64, 2), endless(8, 64), each=lambda model, value: profiler.step())
    print(len(profiler.key_averages()) > 0)


def profiler_beside():
    """A thread that does not train begins a profiler inside the window, and ends it after the window."""
    from torch.profiler import profile

    seen, taken = [], []

    def watch():
        with profile() as profiler:
            torch.ones(3) @ torch.ones(3)
            while len(taken) < 9:
                time.sleep(0.01)
        seen.append(len(profiler.events()) > 0)

    beside = threading.Thread(target=watch)

    def each(model, value):
        taken.append(1)
        if len(taken) == 4:
            beside.start()
            time.sleep(0.2)

    loop(wide(64, 2), endless(8, 64), each=each)
    beside.join()
    print(seen)


def forks():
    """Children are forked inside the window and after it, and exit normally."""

    def each(model, value):
        taken.append(1)
        if len(taken) in (4, 10):
            child = os.fork()
            if child == 0:
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

    taken = []
    loop(wide(64, 2), endless(8, 64), each=each)


def stuck():
    """Takes three steps, and then none for a long time."""
    count = []
    loop(wide(64, 2), endless(8, 64), each=lambda model, value: (count.append(1), len(count) == 3 and time.sleep(300)))


def fails():
    """Raises in the middle of a step, inside the window."""
    model, count = wide(64, 2), []

    def loss(out):
        count.append(1)
        if len(count) == 6:
            raise ValueError("planted")
        return out.square().mean()

    loop(model, endless(8, 64), loss=loss)


def leaves():
    """Calls os._exit in the middle of the window."""
    count = []
    loop(wide(64, 2), endless(8, 64), each=lambda model, value: (count.append(1), len(count) == 5 and os._exit(3)))


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
