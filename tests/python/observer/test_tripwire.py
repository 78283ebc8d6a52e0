"""Products that were not counted are proved by the gradients they gave; nothing else is called a product."""

import ctypes

import numpy as np
import pytest
import torch
from torch import nn


class NumpyLinear(torch.autograd.Function):
    """A product by a way that mfu does not know."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.from_numpy(x.detach().numpy() @ w.detach().numpy().T)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g = g.numpy()
        rows = x.detach().numpy().reshape(-1, x.shape[-1])
        return torch.from_numpy(g @ w.detach().numpy()), torch.from_numpy(g.reshape(-1, g.shape[-1]).T @ rows)


class KeptAside(torch.autograd.Function):
    """The first layer: its input is kept as an array and needs no gradient."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.rows, ctx.w = x.detach().numpy(), w.detach().numpy()
        return torch.from_numpy(ctx.rows @ ctx.w)

    @staticmethod
    def backward(ctx, g):
        return None, torch.from_numpy(ctx.rows.T @ g.numpy())


class Loops(torch.autograd.Function):
    """Multiplies through memory of ctypes, without numpy's product."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return _by_hand(x, w.t())

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return _by_hand(g, w), _by_hand(g.t(), x)


def _by_hand(a, b):
    a, b = a.detach().contiguous(), b.detach().contiguous()
    out = torch.zeros(a.shape[0], b.shape[1])
    at = lambda t: ctypes.cast(t.data_ptr(), ctypes.POINTER(ctypes.c_float))  # noqa: E731
    left, right, to = at(a), at(b), at(out)
    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    for i in range(m):
        for j in range(n):
            to[i * n + j] = sum(left[i * k + p] * right[p * n + j] for p in range(k))
    return out


@pytest.fixture
def unseen(observer, monkeypatch):
    """unseen(function) returns what mfu says of the passes in it; unseen.doubted lists the Functions that nobody can
    see into."""
    from mfu._observer import opaque, tripwire

    loaded = observer.library()

    def heard(function):
        said, heard.doubted = [], []
        places = {b"unseen": said, b"opaque": heard.doubted}
        tripwire._state["backwards"] = 0
        for each in (tripwire._looks, tripwire._said, opaque._looks, opaque._doubted):
            each.clear()
        fact = loaded.fact
        monkeypatch.setattr(
            loaded, "fact", lambda key, value: places[key].append(value.decode()) if key in places else fact(key, value)
        )
        try:
            function()
        finally:
            monkeypatch.setattr(loaded, "fact", fact)
        return said

    return heard


@pytest.mark.parametrize("function", [NumpyLinear, KeptAside, Loops])
def test_products_past_the_dispatcher_are_named(unseen, function):
    w = nn.Parameter(torch.randn(6, 5) if function is not KeptAside else torch.randn(5, 6))
    x = torch.randn(7, 5, requires_grad=function is not KeptAside)
    (said,) = unseen(lambda: function.apply(x, w).square().sum().backward())
    assert said.startswith(f"{function.__name__}\t{__name__}\t")


def test_one_layer_of_many_is_enough(unseen):
    inner = nn.Parameter(torch.randn(8, 8))
    first, last = nn.Linear(4, 8), nn.Linear(8, 2)
    said = unseen(lambda: last(NumpyLinear.apply(torch.relu(first(torch.randn(9, 4))), inner)).sum().backward())
    assert len(said) == 1 and "9 × 8 × 8" in said[0]


class Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.t() @ x


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, (g * x)


class Straight(torch.autograd.Function):
    """A quantizer: the gradient passes unchanged."""

    @staticmethod
    def forward(ctx, w):
        ctx.save_for_backward(w)
        return w.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Identity(torch.autograd.Function):
    """Keeps an identity matrix and passes the gradient on."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g, torch.zeros_like(ctx.saved_tensors[1])


class Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, indices):
        ctx.save_for_backward(indices)
        ctx.shape = table.shape
        return table[indices]

    @staticmethod
    def backward(ctx, g):
        return torch.zeros(ctx.shape).index_add_(0, ctx.saved_tensors[0], g), None


class Loss(torch.autograd.Function):
    """Makes its gradient in forward, as fused losses do."""

    @staticmethod
    def forward(ctx, x, w):
        logits = x @ w.t()
        ctx.dx, ctx.dw = logits.softmax(-1) @ w, logits.softmax(-1).t() @ x
        return logits.logsumexp(-1).sum()

    @staticmethod
    def backward(ctx, g):
        return ctx.dx * g, ctx.dw * g


HARMLESS = {
    "counted inside": lambda: Counted.apply(torch.randn(7, 5, requires_grad=True), nn.Parameter(torch.randn(6, 5))),
    "elementwise": lambda: Scaled.apply(torch.randn(6, 6, requires_grad=True), nn.Parameter(torch.randn(6, 6))),
    "straight through": lambda: nn.functional.linear(
        torch.randn(7, 5), Straight.apply(nn.Parameter(torch.randn(5, 5)))
    ),
    "identity": lambda: Identity.apply(torch.randn(7, 6, requires_grad=True), nn.Parameter(torch.eye(6))),
    "zeros": lambda: Identity.apply(torch.randn(7, 6, requires_grad=True), nn.Parameter(torch.zeros(6, 6))),
    "any matrix": lambda: Identity.apply(torch.randn(7, 6, requires_grad=True), nn.Parameter(torch.randn(6, 6))),
    "lookup": lambda: Lookup.apply(nn.Parameter(torch.randn(9, 6)), torch.randint(9, (7,))),
    "loss": lambda: Loss.apply(torch.randn(7, 5, requires_grad=True), nn.Parameter(torch.randn(9, 5))),
    "checkpoint": lambda: torch.utils.checkpoint.checkpoint(
        nn.Linear(5, 6), torch.randn(7, 5, requires_grad=True), use_reentrant=True
    ),
    "lstm": lambda: nn.LSTM(5, 6)(torch.randn(3, 2, 5))[0],
    "conv": lambda: nn.Conv2d(3, 4, 3)(torch.randn(2, 3, 8, 8)),
    "norm": lambda: nn.LayerNorm((4, 6))(torch.randn(5, 4, 6)),
    "embedding": lambda: nn.Embedding(9, 6)(torch.randint(9, (2, 7))),
    "regularizer": lambda: (nn.Parameter(torch.randn(6, 6)) ** 2).sum(),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_uncounted_product_is_not_called_one(unseen, name):
    assert unseen(lambda: HARMLESS[name]().sum().backward()) == [] == unseen.doubted


def test_a_first_layer_is_proved_by_what_it_saved(unseen):
    w = nn.Parameter(torch.randn(6, 5))

    def train():
        NumpyLinear.apply(torch.randn(7, 5), w).square().sum().backward()

    assert len(unseen(train)) == 1


@pytest.mark.parametrize("function", [NumpyLinear, Counted])
def test_a_function_inside_a_checkpoint_runs_as_without_us(unseen, function):
    w, x = nn.Parameter(torch.randn(6, 5)), torch.randn(7, 5, requires_grad=True)
    inner = lambda x: function.apply(torch.relu(x), w)  # noqa: E731
    said = unseen(lambda: torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False).sum().backward())
    assert len(said) == (1 if function is NumpyLinear else 0)
    assert x.grad is not None and w.grad is not None


def test_gradients_and_random_numbers_are_as_without_it(unseen):
    torch.manual_seed(3)
    w, x = nn.Parameter(torch.randn(6, 5)), torch.randn(7, 5, requires_grad=True)
    state = torch.get_rng_state()
    assert unseen(lambda: NumpyLinear.apply(x, w).square().sum().backward())
    assert torch.equal(state, torch.get_rng_state())
    expected = torch.autograd.grad((x @ w.t()).square().sum(), (x, w))
    assert torch.allclose(x.grad, expected[0], atol=1e-4) and torch.allclose(w.grad, expected[1], atol=1e-4)
    assert np.isfinite(w.grad.numpy()).all()
