"""Small training programs whose FLOPs can be computed by hand; the first argument names one."""

import os
import sys
import threading
import time

import torch

BATCH, IN, HIDDEN, OUT = 8, 16, 32, 4
# Two linear layers: forward 2·B·I·H + 2·B·H·O; backward both again for the weights, and the second one for its input.
FORWARD = 2 * BATCH * IN * HIDDEN + 2 * BATCH * HIDDEN * OUT
STEP = FORWARD + 2 * BATCH * IN * HIDDEN + 2 * (2 * BATCH * HIDDEN * OUT)


def model():
    return torch.nn.Sequential(torch.nn.Linear(IN, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, OUT))


def train(steps, net=None, pause=0.0):
    net = net or model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(BATCH, IN)).sum().backward()
        time.sleep(pause)
        optimizer.step()


def infer(times):
    net = model()
    with torch.no_grad():
        for _ in range(times):
            net(torch.randn(BATCH, IN))


def plain():
    train(20)


def forked():
    train(5)
    for _ in range(2):
        child = os.fork()
        if child == 0:
            infer(3)
            os._exit(0)
        os.waitpid(child, 0)


def spawned():
    import torch.multiprocessing

    context = torch.multiprocessing.get_context("spawn")
    workers = [context.Process(target=infer, args=(4,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    train(5)


def threaded():
    threads = [threading.Thread(target=infer, args=(6,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    train(5)
    for thread in threads:
        thread.join()


def killed():
    train(10)
    os.kill(os.getpid(), 9)


def raising():
    train(3)
    raise SystemExit(5)


def ranks():
    """Under torchrun: data parallel over gloo with one slow rank."""
    torch.distributed.init_process_group("gloo")
    slow = os.environ.get("SLOW_RANK")
    rank = torch.distributed.get_rank()
    net = torch.nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(12):
        optimizer.zero_grad()
        out = net(torch.randn(BATCH, IN))
        if str(rank) == slow:
            time.sleep(0.2)
        out.sum().backward()
        optimizer.step()
    leave()


def leave():
    """torch's gloo thread ends its last work a little late. If the interpreter has ended by then, the process aborts,
    even without mfu."""
    torch.distributed.destroy_process_group()
    time.sleep(0.5)


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]]()
