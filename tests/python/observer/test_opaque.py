"""Functions that compute past the dispatcher: a product in their forward is proved, a function that may hide one is
named, and no other function is."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

ROWS, K, N = 32, 8, 12


@pytest.fixture
def said(observer, monkeypatch):
    """said(function) returns (products that were not counted, functions that nobody can see into)."""
    from mfu._observer import opaque, tripwire

    loaded = observer.library()

    def heard(function):
        found = {b"unseen": [], b"opaque": [], b"doubt": []}
        tripwire._state["backwards"] = 0
        for each in (tripwire._looks, tripwire._said, opaque._looks, opaque._doubted):
            each.clear()
        fact = loaded.fact
        monkeypatch.setattr(
            loaded, "fact", lambda key, value: found[key].append(value.decode()) if key in found else fact(key, value)
        )
        try:
            function()
        finally:
            monkeypatch.setattr(loaded, "fact", fact)
        return found[b"unseen"], found[b"opaque"]

    return heard


def array(tensor):
    return tensor.detach().numpy()


def function(name, forward, backward):
    """Makes an autograd Function of arrays from forward(*arrays) → (result, kept) and backward(g, kept) → gradients."""

    def run(ctx, *args):
        given = [array(each) if isinstance(each, torch.Tensor) else each for each in args]
        result, ctx.kept = forward(*given)
        return torch.from_numpy(np.ascontiguousarray(result))

    def back(ctx, g):
        made = backward(array(g), ctx.kept)
        return tuple(None if each is None else torch.from_numpy(np.ascontiguousarray(each)) for each in made)

    body = {"forward": staticmethod(run), "backward": staticmethod(back), "__module__": __name__}
    return type(name, (torch.autograd.Function,), body)


def activated(name, activation, slope, bias=True):
    def forward(x, w, b):
        z = x @ w.T + (b if bias else 0)
        return activation(z), (x, w, z)

    def backward(g, kept):
        x, w, z = kept
        g = g * slope(z)
        return g @ w, g.T @ x, g.sum(0)

    return function(name, forward, backward)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


ACTIVATED = {
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(np.float32)),
    "squared relu": (lambda z: np.maximum(z, 0) ** 2, lambda z: 2 * np.maximum(z, 0)),
    "silu": (lambda z: z * sigmoid(z), lambda z: sigmoid(z) * (1 + z * (1 - sigmoid(z)))),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "none": (lambda z: z, np.ones_like),
}


def step(apply, *parameters):
    x = torch.randn(ROWS, K, requires_grad=True)
    return lambda: apply(x, *parameters).square().sum().backward()


@pytest.mark.parametrize("name", ACTIVATED)
def test_a_product_with_an_activation_is_proved(said, name):
    fused = activated("Fused", *ACTIVATED[name])
    w, b = nn.Parameter(torch.randn(N, K)), nn.Parameter(torch.randn(N))
    products, _ = said(step(fused.apply, w, b))
    assert products and all(each.startswith(f"Fused\t{__name__}\t") for each in products)


class HiddenForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.from_numpy(array(x) @ array(w).T)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.t() @ x


class HiddenWeightGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, torch.from_numpy(array(g).T @ array(x))


@pytest.mark.parametrize("kind", [HiddenForward, HiddenWeightGradient])
def test_one_hidden_product_among_counted_ones_is_proved(said, kind):
    if kind is HiddenWeightGradient and not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"):
        pytest.skip("a torch that says whether what a Function keeps may be asked for is not at hand")
    products, _ = said(step(kind.apply, nn.Parameter(torch.randn(N, K))))
    assert len(products) == 1 and products[0].startswith(f"{kind.__name__}\t")


def test_a_hidden_product_without_a_backward_is_proved(said):
    w = nn.Parameter(torch.randn(N, K))

    def infer():
        with torch.no_grad():
            HiddenForward.apply(torch.randn(ROWS, K), w)

    assert len(said(infer)[0]) == 1


def mlp(x, w1, w2):
    h = np.maximum(x @ w1.T, 0)
    return h @ w2.T, (x, w1, w2, h)


def mlp_back(g, kept):
    x, w1, w2, h = kept
    dh = (g @ w2) * (h > 0)
    return dh @ w1, dh.T @ x, g.T @ h


def attention(q, k, v):
    s = q @ k.swapaxes(-1, -2)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return p @ v, (q, k, v, p)


def attention_back(g, kept):
    q, k, v, p = kept
    dp = g @ v.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g


def test_what_may_have_multiplied_is_named(said):
    both = function("Mlp", mlp, mlp_back)
    weights = nn.Parameter(torch.randn(N, K)), nn.Parameter(torch.randn(K, N))
    products, named = said(step(both.apply, *weights))
    assert products or named == [f"Mlp\t{__name__}"]
    attend = function("Attend", attention, attention_back)
    q, k, v = (torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))
    products, named = said(lambda: attend.apply(q, k, v).sum().backward())
    assert products or named == [f"Attend\t{__name__}"]


class IntoEmpty(torch.autograd.Function):
    """Like an extension: a kernel that nobody sees writes memory of torch, and then an operator runs."""

    @staticmethod
    def forward(ctx, x, w, after):
        out = torch.empty(2, x.shape[0], w.shape[0])  # a layout without a known equation
        np.matmul(array(x), array(w).T, out=out.numpy()[0])
        out.numpy()[1] = 0
        ctx.shapes = x.shape, w.shape
        return out + 1 if after else out

    @staticmethod
    def backward(ctx, g):
        return torch.zeros(ctx.shapes[0]), torch.zeros(ctx.shapes[1]), None


@pytest.mark.parametrize("after", [False, True])
def test_memory_that_no_operator_wrote_is_noticed(said, after):
    w = nn.Parameter(torch.randn(N, K))
    _, named = said(lambda: IntoEmpty.apply(torch.randn(ROWS, K, requires_grad=True), w, after).sum().backward())
    assert named == [f"IntoEmpty\t{__name__}"]


class Copied(torch.autograd.Function):
    """Like a library with threads of its own: numbers that it made are copied into memory of torch."""

    @staticmethod
    def forward(ctx, x, w1, w2, way):
        made = np.maximum(array(x) @ array(w1).T, 0) @ array(w2).T
        ctx.shapes = x.shape, w1.shape, w2.shape
        return torch.tensor(made) if way == "tensor" else torch.empty(made.shape).copy_(torch.from_numpy(made))

    @staticmethod
    def backward(ctx, g):
        return *(torch.zeros(each) for each in ctx.shapes), None


@pytest.mark.parametrize("way", ["tensor", "copy"])
def test_numbers_that_were_copied_into_memory_of_torch_are_noticed(said, way):
    w1, w2 = nn.Parameter(torch.randn(N, K)), nn.Parameter(torch.randn(K, N))
    products, named = said(lambda: Copied.apply(torch.randn(ROWS, K, requires_grad=True), w1, w2, way).sum().backward())
    assert products or named == [f"Copied\t{__name__}"]


class Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        patches = array(torch.nn.functional.unfold(x.detach(), 3))
        ctx.shapes = x.shape, w.shape
        made = np.einsum("ok,bkl->bol", array(w).reshape(len(w), -1), patches)
        return torch.tensor(made).view(len(x), len(w), x.shape[2] - 2, -1)

    @staticmethod
    def backward(ctx, g):
        return torch.zeros(ctx.shapes[0]), torch.zeros(ctx.shapes[1])


def test_a_convolution_past_the_dispatcher_is_noticed(said):
    w = nn.Parameter(torch.randn(5, 4, 3, 3))
    x = torch.randn(2, 4, 8, 8, requires_grad=True)
    assert said(lambda: Convolution.apply(x, w).sum().backward())[1] == [f"Convolution\t{__name__}"]


class Adder(torch.autograd.Function):
    """AdderNet computes distances instead of products, with operators."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return -(x[:, None] - w[None]).abs().sum(-1)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        apart = x[:, None] - w[None]
        return (-apart.clamp(-1, 1) * g[..., None]).sum(1), (apart * g[..., None]).sum(0)


class DummyGradient(torch.autograd.Function):
    """Like Megatron: the weight's gradient goes elsewhere, and uninitialised memory is returned."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        w.main_grad = g.t() @ x
        return g @ w, torch.empty_like(w)


class Shards(torch.autograd.Function):
    """Gathers row by row into memory that it made."""

    @staticmethod
    def forward(ctx, x, w):
        out = torch.empty_like(x)
        for i, row in enumerate(x):
            out[i].copy_(row)
        return out

    @staticmethod
    def backward(ctx, g):
        return g, None


def elementwise(name, forward):
    """Works element by element on arrays; gradients pass unchanged."""
    return function(name, lambda *given: (forward(*given), given), lambda g, kept: (g, *(None,) * (len(kept) - 1)))


def square(*shape):
    return nn.Parameter(torch.randn(*shape))


HONEST = {
    "distances by operators": lambda x: Adder.apply(x, square(N, K)),
    "square distances": lambda x: Adder.apply(x, square(K, K)),
    "a gradient that goes elsewhere": lambda x: DummyGradient.apply(x, square(N, K)),
    "copies into empty memory": lambda x: Shards.apply(x, square(N, K)),
    "a scale by arrays": lambda x: elementwise("Scale", lambda x, s: x * s).apply(x, square(ROWS, K)),
    "a position table by arrays": lambda x: elementwise("Place", lambda x, t: x + t).apply(
        x.view(4, 8, K), square(8, K)
    ),
    "a rotation by arrays": lambda x: elementwise("Rotate", lambda x, c, s: x * c[None] - x * s[None]).apply(
        x.view(4, 8, K), torch.randn(8, K), torch.randn(8, K)
    ),
    "a rotation by arrays of as many dimensions": lambda x: elementwise("Rotate", lambda x, c, s: x * c - x * s).apply(
        x.view(4, 8, K), torch.randn(1, 8, K), torch.randn(1, 8, K)
    ),
    "a norm by arrays": lambda x: elementwise("Norm", lambda x, w: x / x.std() * w).apply(x, square(K)),
    "a gate by arrays": lambda x: elementwise("Gate", lambda x, y: x * sigmoid(y)).apply(x, x * 2),
    "a quantizer by arrays": lambda x: F.linear(x, elementwise("Round", np.round).apply(square(N, K))),
    "a lookup by arrays": lambda x: function(
        "Look", lambda t, i: (t[i], None), lambda g, kept: (np.zeros((11, K), np.float32), None)
    ).apply(square(11, K), torch.arange(ROWS) % 11),
    "a fourier layer": lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(square(K)), n=K),
    "a hypernetwork": lambda x: torch.einsum("bk,bnk->bn", x, F.linear(x, square(N * K, K)).view(ROWS, N, K)),
    "a sparse layer": lambda x: torch.sparse.mm(square(N, K).to_sparse(), x.t()).t(),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_functions_are_neither_contradicted_nor_doubted(said, name):
    torch.manual_seed(2)
    x = torch.randn(ROWS, K, requires_grad=True)
    assert said(lambda: HONEST[name](x * 1).square().sum().backward()) == ([], [])


def test_nothing_is_left_watching_when_a_function_raises(said, observer):
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            raise ValueError("theirs")

    def fails():
        with pytest.raises(ValueError, match="theirs"):
            Raises.apply(torch.randn(3, 4, requires_grad=True))

    said(fails)
    loaded = observer.library()
    other = torch.zeros(4)  # made first, so that its memory was never another tensor's
    loaded.watch_writes(1)
    made = torch.empty(3)
    assert loaded.writer_of(made.untyped_storage()._cdata) == 2
    made.add_(1)
    assert loaded.writer_of(made.untyped_storage()._cdata) == 1
    loaded.watch_writes(-1)
    other.normal_()
    assert loaded.writer_of(other.untyped_storage()._cdata) in (0, 2)


def test_nothing_is_left_watching_when_a_backward_raises(said, observer):
    from mfu._observer import opaque

    class RaisesBack(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("theirs")

    def fails():
        with pytest.raises(ValueError, match="theirs"):
            RaisesBack.apply(torch.randn(3, 4, requires_grad=True)).sum().backward()

    said(fails)
    torch.randn(3, requires_grad=True).square().sum().backward()  # the next Function finds what was left
    assert opaque._watching == []


def test_memory_is_somebody_elses_where_torch_did_not_allocate_it(observer):
    """A tensor that was looked at through numpy() is still torch's: programs log their gradients so."""
    from mfu._observer import opaque

    loaded = observer.library()
    looked_at = torch.randn(3, 4)
    looked_at.numpy()
    shared = torch.randn(3, 4).share_memory_()
    for mine in (torch.randn(3, 4), looked_at, looked_at[1:], shared):
        assert not opaque.is_outside(mine, loaded)
    ones = np.ones((3, 4), np.float32)
    bytes_of_others = torch.frombuffer(bytearray(8), dtype=torch.float32)
    for foreign in (torch.from_numpy(ones), torch.from_dlpack(ones), bytes_of_others):
        assert opaque.is_outside(foreign, loaded)


@pytest.mark.parametrize("made", ["by torch", "by numpy"])
def test_gradients_that_are_logged_through_numpy_are_not_doubted(observer, monkeypatch, made):
    from mfu._observer import tripwire

    layer = torch.nn.Linear(4, 4)
    layer(torch.randn(3, 4)).sum().backward()
    if made == "by numpy":
        layer.weight.grad = torch.from_numpy(np.ones((4, 4), np.float32))
    np.histogram(layer.weight.grad.numpy())
    doubts, loaded = [], observer.library()
    monkeypatch.setattr(loaded, "fact", lambda key, value: doubts.append(value))
    tripwire.first_step(torch.optim.SGD(layer.parameters(), lr=0.1), loaded)
    assert doubts == ([b"gradients of matrices were made outside of torch"] if made == "by numpy" else [])
