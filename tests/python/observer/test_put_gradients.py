"""Gradients that no backward made: if an operator made them, all is known; if not, the coverage is doubted."""

import numpy as np
import pytest
import torch
from torch import nn

K, N = 8, 5


@pytest.fixture
def doubts(observer, monkeypatch):
    """doubts(step, parameters) trains three steps and returns the doubts about them."""
    from mfu._observer import opaque, tripwire

    loaded = observer.library()
    fact, found = loaded.fact, []

    def heard(step, parameters):
        tripwire._state["backwards"] = 0
        for each in (tripwire._looks, tripwire._said, tripwire._reached, tripwire._seen_optimizers, tripwire._put):
            each.clear()
        opaque._looks.clear()
        monkeypatch.setattr(
            loaded, "fact", lambda key, value: found.append(value.decode()) if key == b"doubt" else fact(key, value)
        )
        optimizer = torch.optim.SGD(parameters, lr=0.01)
        for _ in range(3):
            step(optimizer)
            optimizer.step()
        return found

    yield heard
    monkeypatch.setattr(loaded, "fact", fact)
    assert not tripwire._put  # the watch has ended


class Kept(torch.autograd.Function):
    """Keeps the weight's gradient to itself: `give` puts it somewhere."""

    @staticmethod
    def forward(ctx, x, w, give):
        ctx.save_for_backward(x, w)
        ctx.give = give
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        ctx.give(g, x)
        return g @ w, None, None


def program(give, zero=False):
    """(step, parameters): give(w, g, x) puts the gradient of one weight, behind a layer that torch trains."""
    first, w = nn.Linear(K, K), nn.Parameter(torch.randn(N, K))
    if zero:
        w.grad = torch.zeros_like(w)

    def step(optimizer):
        optimizer.zero_grad(set_to_none=not zero)
        x = first(torch.randn(9, K))
        Kept.apply(x, w, lambda g, x: give(w, g, x.detach())).square().mean().backward()

    return step, [*first.parameters(), w]


def by_numpy(g, x):
    return np.ascontiguousarray(g.numpy().T @ x.numpy())


def copied(w, g, x):
    w.grad = torch.tensor(by_numpy(g, x))


def copied_and_scaled(w, g, x):
    w.grad = torch.tensor(by_numpy(g, x)) / 2


def into_empty(w, g, x):
    w.grad = torch.empty(N, K)
    w.grad.numpy()[:] = by_numpy(g, x)


def into_its_memory(w, g, x):
    w.grad.numpy()[:] += by_numpy(g, x)


@pytest.mark.parametrize(
    ("give", "zero"), [(copied, False), (copied_and_scaled, False), (into_empty, False), (into_its_memory, True)]
)
def test_gradients_that_were_made_past_the_dispatcher_are_doubted(doubts, give, zero):
    (doubt,) = doubts(*program(give, zero))
    assert f"({N} × {K}) was made past torch's dispatcher" in doubt


def put(w, g, x):
    w.grad = g.t() @ x


def added(w, g, x):
    w.grad.addmm_(g.t(), x)


def moved(w, g, x):
    w.grad = torch.empty(N, K)
    w.grad.copy_(g.t() @ x)


def with_noise(w, g, x):
    w.grad = g.t() @ x + torch.from_numpy(np.ones((N, K), np.float32))


def of_data(w, g, x):
    """A product of two tensors that came from Python."""
    w.grad = torch.tensor(np.ones((N, 9), np.float32)) @ torch.tensor(np.ones((9, K), np.float32))


def moved_in_place(w, g, x):
    """While the step reads memory that was filled from outside, as loaders do, or that another thread wrote."""
    filled = torch.empty(N, K)
    filled.numpy()[:] = 1
    w.grad.copy_(g.t() @ x + filled * 0)


@pytest.mark.parametrize(
    ("give", "zero"),
    [(moved_in_place, True), (put, False), (added, True), (moved, False), (with_noise, False), (of_data, False)],
)
def test_gradients_that_operators_made_are_not_doubted(doubts, give, zero):
    assert doubts(*program(give, zero)) == []


def test_copies_of_gradients_by_a_kernel_of_their_own_are_not_doubted(doubts):
    """Fused kernels give an optimizer's own parameters a copy of the model's gradients."""
    model = nn.Linear(K, N)
    own = [nn.Parameter(each.detach().clone()) for each in model.parameters()]

    def step(_):
        model.zero_grad()
        model(torch.randn(9, K)).square().mean().backward()
        for each, other in zip(own, model.parameters()):
            each.grad = torch.empty_like(each)
            each.grad.numpy()[:] = other.grad.numpy() * 0.5

    assert doubts(step, own) == []


def test_a_step_of_ordinary_training_is_not_watched(doubts, monkeypatch):
    from mfu._observer import opaque

    watched = []
    monkeypatch.setattr(opaque, "Seen", lambda *args, **kwargs: watched.append(args))
    model = nn.Sequential(nn.Linear(K, K), nn.ReLU(), nn.Linear(K, N))

    def step(optimizer):
        optimizer.zero_grad()
        model(torch.randn(9, K)).square().mean().backward()

    assert doubts(step, model.parameters()) == [] == watched
