"""Programs on the test device, for `mfu run`: python programs.py NAME."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "device"))

import late  # noqa: E402
import torch  # noqa: E402

BATCH, WIDTH, STEPS = 32, 64, 6
FORWARD = 2 * BATCH * WIDTH * WIDTH  # FLOPs of one layer


def batch(device):
    return torch.randn(BATCH, WIDTH, device=device)


def train(layers, places, before_step=lambda: None, read=False):
    for layer, place in zip(layers, places):
        layer.to(place)
    optimizer = torch.optim.SGD([each for layer in layers for each in layer.parameters()], lr=0.01)
    for _ in range(STEPS):
        x = batch(places[0])
        for layer, place in zip(layers, places):
            x = layer(x.to(place))
        x.square().mean().backward()
        before_step()
        optimizer.step()
        optimizer.zero_grad()
        if read:
            x.sum().item()
    for index in range(late.device_count()):
        late.synchronize(index)


def linear():
    return torch.nn.Linear(WIDTH, WIDTH, bias=False)


def one():
    train([linear(), linear()], ["late:0", "late:0"])


def two():
    train([linear(), linear()], ["late:0", "late:1"])


def offloaded():
    """The model is on the device. The optimizer's parameters and its own matmul are on the host."""
    model, masters = linear().to("late:0"), linear()
    optimizer = torch.optim.SGD(masters.parameters(), lr=0.01)
    for _ in range(STEPS):
        model(batch("late:0")).square().mean().backward()
        masters.weight.grad = model.weight.grad.cpu()
        with torch.no_grad():
            masters.weight.grad @ masters.weight.grad  # as an orthogonalizing optimizer does
        optimizer.step()
        model.weight.data.copy_(masters.weight.data)
        model.zero_grad()


def inference():
    model = linear().to("late:0")
    with torch.no_grad():
        for _ in range(STEPS):
            model(batch("late:0"))
    late.synchronize()


def pausing():
    """Generates without a cache. The host does nothing for two seconds; in the first the device is busy."""
    model = torch.nn.Sequential(torch.nn.Embedding(64, WIDTH), linear()).to("late:0")

    def generate(first):
        with torch.no_grad():
            for length in range(first, first + 8):
                model(torch.zeros(1, length, dtype=torch.long, device="late:0"))
        late.synchronize()

    generate(4)
    late.sleep(1.0)
    time.sleep(2.0)
    generate(20)


def slow():
    """The device takes 50 ms for a step; the host launches it in a few and never reads anything."""
    train([linear()], ["late:0"], lambda: late.sleep(0.05))


def slow_and_read():
    train([linear()], ["late:0"], lambda: late.sleep(0.05), read=True)


def fetched(host_seconds, device_seconds):
    """A slow loader, during which the device is busy or not."""

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return STEPS

        def __getitem__(self, index):
            time.sleep(host_seconds)
            return torch.randn(BATCH, WIDTH)

    layer = linear().to("late:0")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    for x in torch.utils.data.DataLoader(Slow(), batch_size=None):
        late.sleep(device_seconds)
        layer(x.to("late:0")).square().mean().backward()
        optimizer.step()
    late.synchronize()


def loader_hidden():
    fetched(0.03, 0.09)


def loader_slow():
    fetched(0.25, 0.005)


class Multiplies(torch.utils.data.Dataset):
    """A dataset that makes its items by a product on the host, in the processes of the loader."""

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        return torch.ones(BATCH, WIDTH) @ torch.ones(WIDTH, WIDTH)


def loader_workers():
    layer = linear().to("late:0")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    for x in torch.utils.data.DataLoader(Multiplies(), batch_size=None, num_workers=2, multiprocessing_context="spawn"):
        layer(x.to("late:0")).square().mean().backward()
        optimizer.step()
    late.synchronize()


class Hidden(torch.autograd.Function):
    """A product without a matmul of the dispatcher: numbers are multiplied and then added up."""

    @staticmethod
    def way(a, b):
        return (a.detach().unsqueeze(2) * b.detach().unsqueeze(0)).sum(1)

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return Hidden.way(x, w.t())

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return Hidden.way(g, w), Hidden.way(g.t(), x)


def hidden_product():
    layers = [linear().to("late:0") for _ in range(2)]
    optimizer = torch.optim.SGD([each.weight for each in layers], lr=0.01)
    waits = late.counts()["host_waits"]
    for _ in range(STEPS):
        Hidden.apply(layers[0](batch("late:0")), layers[1].weight).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.05)  # a verdict arrives when the device is done
    assert late.counts()["host_waits"] == waits
    late.synchronize()




HEADS, QUERIES, HEAD = 2, 16, 8
PAIRS = QUERIES * (QUERIES + 1) // 2


def masked(change=False):
    """Attention with masks on a slow device; the host never waits for them."""
    projection = torch.nn.Linear(HEAD, HEAD, bias=False).to("late:0")
    optimizer = torch.optim.SGD(projection.parameters(), lr=0.01)
    triangle = torch.ones(QUERIES, QUERIES, dtype=torch.bool).tril()
    bias = torch.zeros(QUERIES, QUERIES).masked_fill(~triangle, float("-inf"))
    mask = bias.to("late:0")
    for step in range(STEPS):
        late.sleep(0.02)
        if change:
            mask = (triangle if step % 2 else bias).to("late:0")[None, None].expand(1, HEADS, QUERIES, QUERIES)
            if step % 2:
                mask = torch.zeros_like(mask, dtype=torch.float32).masked_fill(~mask, float("-inf"))
            time.sleep(0.15)  # reading masks may take a hundredth of the time
        x = projection(torch.randn(1, HEADS, QUERIES, HEAD, device="late:0"))
        y, _ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x, attn_mask=mask)
        y.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    late.synchronize()


def masked_anew():
    masked(change=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    globals()[sys.argv[1]]()
