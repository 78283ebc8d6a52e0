"""Ordinary models never trip the wire, whatever is done to their weights. Products by ways that mfu does not know
do."""

import ctypes
import ctypes.util
import threading

import numpy as np
import pytest
import torch
from test_tripwire import unseen  # noqa: F401
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint


def train(model, x, optimizer=None, steps=3):
    optimizer = optimizer or torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)

    def run():
        for _ in range(steps):
            optimizer.zero_grad()
            out = model(x)
            (out[0] if isinstance(out, tuple) else out).square().mean().backward()
            optimizer.step()

    return run


class Module(nn.Module):
    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.run = forward

    def forward(self, x):
        return self.run(self, x)


TOKENS = torch.randint(11, (3, 7))
ROWS = torch.randn(6, 8)


class MergedQkv(torch.autograd.Function):
    """Multiplies three weights in one product; the gradients are slices of another one."""

    @staticmethod
    def forward(ctx, x, q, k, v):
        ctx.save_for_backward(x, q, k, v)
        return x @ torch.cat([q, k, v]).t()

    @staticmethod
    def backward(ctx, g):
        x, q, k, v = ctx.saved_tensors
        dw = g.t() @ x
        return g @ torch.cat([q, k, v]), *dw.split(len(q))


class Transposed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return (w.reshape(-1, x.shape[-1]) @ x.t()).t().contiguous()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return (w.reshape(-1, x.shape[-1]).t() @ g.t()).t(), (x.t() @ g).t().reshape(w.shape)


class ExpertStack(torch.autograd.Function):
    """Takes a slice of a stack of experts for each half of the rows."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.bmm(x.view(2, -1, x.shape[-1]), w[:2].transpose(1, 2)).flatten(0, 1)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g, rows = g.view(2, -1, g.shape[-1]), x.view(2, -1, x.shape[-1])
        dw = torch.zeros_like(w)
        dw[:2] = torch.bmm(g.transpose(1, 2), rows)
        return torch.bmm(g, w[:2]).flatten(0, 1), dw


class GatherExperts(torch.autograd.Function):
    """Only moves rows, and keeps a matrix that it does not multiply by."""

    @staticmethod
    def forward(ctx, x, order, w):
        ctx.save_for_backward(order, w)
        return x[order]

    @staticmethod
    def backward(ctx, g):
        order, w = ctx.saved_tensors
        return torch.empty_like(g).index_copy_(0, order, g), None, torch.zeros_like(w)


class AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g.clone()


class InThread(torch.autograd.Function):
    """Its counted products run in another thread, as a library with a pool of its own does."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        found = {}
        worker = threading.Thread(target=lambda: found.update(dx=g @ w, dw=g.t() @ x))
        worker.start()
        worker.join()
        return found["dx"], found["dw"]


class Fake4Bit(torch.autograd.Function):
    """Dequantizes in both directions, like bitsandbytes' MatMul4Bit."""

    @staticmethod
    def forward(ctx, x, packed, scale):
        ctx.save_for_backward(packed, scale)
        return F.linear(x, packed.float() * scale)

    @staticmethod
    def backward(ctx, g):
        packed, scale = ctx.saved_tensors
        return g @ (packed.float() * scale), None, None


class Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        half = x.shape[-1] // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    @staticmethod
    def backward(ctx, g):
        cos, sin = ctx.saved_tensors
        half = g.shape[-1] // 2
        gs = g * sin
        return g * cos + torch.cat([gs[..., half:], -gs[..., :half]], -1), None, None


class OneHot(torch.autograd.Function):
    """A lookup that keeps one-hot rows, and adds rows up instead of multiplying."""

    @staticmethod
    def forward(ctx, table, indices):
        ctx.save_for_backward(indices)
        return table[indices]

    @staticmethod
    def backward(ctx, g):
        (indices,) = ctx.saved_tensors
        return torch.zeros(11, g.shape[-1]).index_add_(0, indices, g), None


def tied():
    table = nn.Embedding(11, 8)
    return Module(lambda self, x: F.linear(self.table(x), self.table.weight), table=table)


def experts():
    parts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        chosen = self.gate(x).argmax(-1) % 2  # two of four are never chosen
        return torch.stack([self.parts[int(i)](row) for row, i in zip(x, chosen)]) * self.gate(x).mean()

    return Module(forward, gate=nn.Linear(8, 4), parts=parts)


def frozen():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    model[0].requires_grad_(False)
    return model


def lora():
    base = nn.Linear(8, 8).requires_grad_(False)
    return Module(
        lambda self, x: base(x) + self.b(self.a(x)), a=nn.Linear(8, 2, bias=False), b=nn.Linear(2, 8, bias=False)
    )


def merged_lora():
    a, b = nn.Parameter(torch.randn(2, 8)), nn.Parameter(torch.randn(8, 2))
    base = torch.randn(8, 8)
    return Module(lambda self, x: F.linear(x, base + self.b @ self.a), a=a, b=b)


def mapping():
    return Module(
        lambda self, x: self.conv(torch.ones(1, 8, 4, 4)) * self.map(x)[0].view(1, 8, 1, 1),
        map=nn.Sequential(nn.Linear(8, 8), nn.LeakyReLU(), nn.Linear(8, 8)),
        conv=nn.Conv2d(8, 8, 3),
    )


def graph_network():
    edges = torch.sparse_coo_tensor(torch.randint(6, (2, 9)), torch.rand(9), (6, 6))
    return Module(lambda self, x: torch.sparse.mm(edges, self.linear(x)), linear=nn.Linear(8, 8))


def scatter_network():
    to, start = torch.randint(6, (9,)), torch.randint(6, (9,))
    return Module(lambda self, x: torch.zeros(6, 8).index_add(0, to, self.linear(x)[start]), linear=nn.Linear(8, 8))


def einsum_model():
    w = nn.Parameter(torch.randn(2, 8, 4))
    return Module(lambda self, x: torch.einsum("bk,hkd->bhd", x, self.w), w=w)


def of_function(function, *shapes):
    weights = nn.ParameterList(nn.Parameter(torch.randn(*shape)) for shape in shapes)
    return Module(lambda self, x: function.apply(x, *self.weights), weights=weights)


def positional():
    return Module(
        lambda self, x: self.body(self.table(x) + self.place),
        table=nn.Embedding(11, 8),
        place=nn.Parameter(torch.randn(7, 8)),
        body=nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0),
    )


def wrapped(make):
    model = make()
    return Module(lambda self, x: checkpoint(self.model, x, use_reentrant=False), model=model)


def quantized():
    packed, scale = torch.randint(-7, 8, (8, 8)).to(torch.int8), torch.tensor(0.1)
    return Module(lambda self, x: Fake4Bit.apply(self.first(x), packed, scale), first=nn.Linear(8, 8))


def fake_quantized():
    class Quantize(nn.Module):
        def forward(self, w):
            return torch.fake_quantize_per_tensor_affine(w, 0.1, 0, -128, 127)

    linear = nn.Linear(8, 8)
    parametrize.register_parametrization(linear, "weight", Quantize())
    return linear


def per_sample():
    model = nn.Linear(8, 4)
    parameters = dict(model.named_parameters())

    def loss(parameters, row):
        return torch.func.functional_call(model, parameters, row.unsqueeze(0)).square().sum()

    return lambda: torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, ROWS)


MODELS = {
    "embedding": lambda: (nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 4)), TOKENS),
    "tied head": lambda: (tied(), TOKENS),
    "experts that are not chosen": lambda: (experts(), ROWS),
    "frozen": lambda: (frozen(), ROWS),
    "lora": lambda: (lora(), ROWS),
    "merged lora": lambda: (merged_lora(), ROWS),
    "pooled head": lambda: (
        Module(lambda s, x: s.h(s.b(x).mean(0, keepdim=True)), b=nn.Linear(8, 8), h=nn.Linear(8, 4)),
        ROWS,
    ),
    "mapping network": lambda: (mapping(), ROWS),
    "convolutions": lambda: (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)),
        torch.randn(2, 3, 8, 8),
    ),
    "lstm": lambda: (nn.LSTM(8, 8, 2), torch.randn(5, 3, 8)),
    "gru cell": lambda: (Module(lambda s, x: s.c(x), c=nn.GRUCell(8, 8)), ROWS),
    "sparse graph": lambda: (graph_network(), ROWS),
    "scattered graph": lambda: (scatter_network(), ROWS),
    "einsum": lambda: (einsum_model(), ROWS),
    "weight norm": lambda: (parametrizations.weight_norm(nn.Linear(8, 8)), ROWS),
    "spectral norm": lambda: (parametrizations.spectral_norm(nn.Linear(8, 8)), ROWS),
    "orthogonal": lambda: (parametrizations.orthogonal(nn.Linear(8, 8)), ROWS),
    "old weight norm": lambda: (nn.utils.weight_norm(nn.Linear(8, 8)), ROWS),
    "bilinear": lambda: (Module(lambda s, x: s.b(x, x), b=nn.Bilinear(8, 8, 4)), ROWS),
    "transformer": lambda: (positional(), TOKENS),
    "attention": lambda: (Module(lambda s, x: s.a(x, x, x), a=nn.MultiheadAttention(8, 2)), torch.randn(4, 2, 8)),
    "merged qkv": lambda: (of_function(MergedQkv, (8, 8), (8, 8), (8, 8)), ROWS.requires_grad_(False)),
    "transposed": lambda: (of_function(Transposed, (2, 4, 8)), ROWS),
    "stack of experts": lambda: (of_function(ExpertStack, (4, 5, 8)), ROWS),
    "moved rows": lambda: (
        Module(
            lambda s, x: GatherExperts.apply(s.l(x), torch.randperm(6), s.w),
            l=nn.Linear(8, 8),
            w=nn.Parameter(torch.randn(8, 8)),
        ),
        ROWS,
    ),
    "all-reduce": lambda: (Module(lambda s, x: AllReduce.apply(s.l(x)), l=nn.Linear(8, 8)), ROWS),
    "another thread's products": lambda: (
        Module(lambda s, x: InThread.apply(s.l(x), s.w), l=nn.Linear(8, 8), w=nn.Parameter(torch.randn(8, 8))),
        ROWS,
    ),
    "4 bits": lambda: (quantized(), ROWS),
    "fake quantized": lambda: (fake_quantized(), ROWS),
    "rotary": lambda: (
        Module(lambda s, x: Rotary.apply(s.l(x), torch.cos(ROWS), torch.sin(ROWS)), l=nn.Linear(8, 8)),
        ROWS,
    ),
    "own lookup": lambda: (
        Module(lambda s, x: s.l(OneHot.apply(s.t, x.flatten())), t=nn.Parameter(torch.randn(11, 8)), l=nn.Linear(8, 8)),
        TOKENS,
    ),
    "sparse gradients": lambda: (nn.Sequential(nn.Embedding(11, 8, sparse=True), nn.Linear(8, 4)), TOKENS),
    "embedding bag": lambda: (nn.EmbeddingBag(11, 8), TOKENS),
    "checkpointed": lambda: (wrapped(lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))), ROWS),
    "checkpointed function": lambda: (wrapped(lambda: of_function(MergedQkv, (8, 8), (8, 8), (8, 8))), ROWS),
    "double precision": lambda: (nn.Linear(8, 8).double(), ROWS.double()),
    "half": lambda: (nn.Linear(8, 8).bfloat16(), ROWS.bfloat16()),
    "complex": lambda: (
        Module(
            lambda s, x: (x.to(torch.complex64) @ s.w).abs(), w=nn.Parameter(torch.randn(8, 8, dtype=torch.complex64))
        ),
        ROWS,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_ordinary_models_do_not_trip_it(unseen, name):  # noqa: F811
    torch.manual_seed(1)
    model, x = MODELS[name]()
    assert unseen(train(model, x)) == [] == unseen.doubted


@pytest.mark.parametrize("make", ["Adam", "AdamW", "Adagrad", "LBFGS"])
def test_optimizers_do_not_trip_it(unseen, make):  # noqa: F811
    model = nn.Linear(8, 8)
    options = {"fused": True} if make in ("Adam", "AdamW") else {}
    optimizer = getattr(torch.optim, make)(model.parameters(), lr=0.01, **options)

    def closure():
        optimizer.zero_grad()
        loss = model(ROWS).square().mean()
        loss.backward()
        return loss

    assert unseen(lambda: [optimizer.step(closure) for _ in range(3)]) == []


def test_transforms_of_functions_do_not_trip_it(unseen):  # noqa: F811
    assert unseen(per_sample()) == []
    assert unseen(lambda: torch.func.jacrev(nn.Linear(8, 4))(ROWS[0])) == []
    assert unseen(lambda: torch.autograd.functional.hessian(lambda x: nn.Linear(8, 4)(x).square().sum(), ROWS[0])) == []


def test_gradients_of_gradients_do_not_trip_it(unseen):  # noqa: F811
    w = nn.Parameter(torch.randn(8, 8))

    def penalty():
        x = ROWS.clone().requires_grad_()
        (dx,) = torch.autograd.grad(MergedQkv.apply(x, w, w, w).sum(), x, create_graph=True)
        dx.square().sum().backward()

    assert unseen(penalty) == []


def test_a_compiled_model_does_not_trip_it(unseen):  # noqa: F811
    model = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), backend="aot_eager")
    assert unseen(train(model, ROWS)) == []


# Ways past the dispatcher that mfu does not know.


def past_the_dispatcher(a, b):
    """Like a C++ extension that calls a backend's kernel itself."""
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect)
    with torch._C._ExcludeDispatchKeyGuard(key):
        return torch.mm(a.detach(), b.detach())


def by_numpy(a, b):
    return torch.from_numpy(np.matmul(a.detach().numpy(), b.detach().numpy()))


def by_blas(a, b):
    """Calls cblas_sgemm by ctypes, of any library that has it."""
    for name in ("openblas", "cblas", "blas"):
        path = ctypes.util.find_library(name)
        try:
            gemm = ctypes.CDLL(path).cblas_sgemm if path else None
        except (OSError, AttributeError):
            gemm = None
        if gemm is not None:
            break
    else:
        pytest.skip("a BLAS with a C face is not at hand")
    a, b = a.detach().contiguous(), b.detach().contiguous()
    (m, k), n, out = a.shape, b.shape[1], torch.empty(a.shape[0], b.shape[1])
    at = lambda t: ctypes.c_void_p(t.data_ptr())  # noqa: E731
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    gemm(101, 111, 111, m, n, k, one, at(a), k, at(b), n, zero, at(out), n)
    return out


class Launcher:
    """kernel[grid](…) launches without a trace in torch, like the launches of a compiler for kernels."""

    def __getitem__(self, grid):
        def launch(a, b, out):
            rows, columns = grid
            left, right, to = a.numpy(), b.numpy(), out.numpy()
            for i in range(rows):
                for j in range(columns):
                    to[i, j] = sum(left[i, p] * right[p, j] for p in range(left.shape[1]))

        return launch


def by_launcher(a, b):
    out = torch.empty(a.shape[0], b.shape[1])
    Launcher()[out.shape](a.detach(), b.detach(), out)
    return out


WAYS = [past_the_dispatcher, by_numpy, by_blas, by_launcher]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", ["both", "input only", "weight only"])
def test_a_product_by_an_unknown_way_is_found(unseen, way, part):  # noqa: F811
    if part != "both" and not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"):
        pytest.skip("a torch that says whether what a Function keeps may be asked for is not at hand")

    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return way(x, w.t())

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            dx = None if part == "weight only" else way(g, w)
            return dx, None if part == "input only" else way(g.t().contiguous(), x)

    first, last = nn.Linear(8, 8), nn.Linear(5, 3)
    w = nn.Parameter(torch.randn(5, 8), requires_grad=part != "input only")
    x = ROWS if part == "weight only" else None
    model = Module(lambda s, rows: last(Hidden.apply(first(rows) if x is None else x, w)), first=first, last=last)
    said = unseen(train(model, ROWS, torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.01)))
    assert len(said) == 1 and said[0].startswith("Hidden\t")


def test_a_node_that_a_backward_never_reaches_is_not_kept(unseen):  # noqa: F811
    import gc
    import weakref

    def leave():
        x = ROWS.clone().requires_grad_()
        w = nn.Parameter(torch.randn(8, 8))
        aside = MergedQkv.apply(x, w, w, w)
        kept = weakref.ref(aside.grad_fn)
        other = nn.Parameter(torch.randn(3))
        torch.autograd.grad(aside.sum() + other.sum(), other)  # the node is in the graph but not needed
        return kept

    found = []
    gc.disable()  # freed at once, not by a later collection: the graph holds the memory of a step
    try:
        unseen(lambda: found.append(leave()))
        assert found[0]() is None
    finally:
        gc.enable()
