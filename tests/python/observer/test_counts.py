"""Compares what is counted with torch's own counter where its formulas are right, and with arithmetic where they are
not."""

import threading

import pytest
import torch
from models import Block, Gpt, gpt_flop, gpt_step
from torch import nn

F = nn.functional


def backward_of(function):
    def run():
        function().float().sum().backward()

    return run


def conv_cases():
    image = torch.randn(2, 8, 11, 11)
    yield "conv2d", nn.Conv2d(8, 6, 3, padding=1), image
    yield "grouped", nn.Conv2d(8, 4, 3, groups=4, stride=2), image
    yield "depthwise", nn.Conv2d(8, 8, 3, groups=8), image
    yield "dilated", nn.Conv2d(8, 5, 3, dilation=2, bias=False), image
    yield "transposed", nn.ConvTranspose2d(8, 6, 3, stride=2, output_padding=1), image
    yield "conv1d", nn.Conv1d(4, 6, 5), torch.randn(2, 4, 30)
    yield "conv3d", nn.Conv3d(2, 3, 3), torch.randn(1, 2, 6, 6, 6)


@pytest.mark.parametrize(
    "name, layer, given", list(conv_cases()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_convolutions_and_their_backward(count, oracle, name, layer, given):
    given = given.clone().requires_grad_()
    run = backward_of(lambda: layer(given))
    got = count(run)
    # torch's counter treats the weight gradient of a grouped convolution as that of an ungrouped one.
    grouped = layer.groups > 1
    expected = 3 * oracle(lambda: layer(given)) if grouped else oracle(run)
    assert got.hardware_flop == got.model_flop == expected > 0
    assert not got.uncounted()


def test_a_grouped_transposed_convolution_is_what_it_multiplies(count):
    layer, given = nn.ConvTranspose2d(8, 8, 3, groups=4), torch.randn(1, 8, 5, 5)
    # Each input element meets 8/4 outputs × 3 × 3 weights.
    with torch.no_grad():
        assert count(lambda: layer(given)).hardware_flop == 2 * (8 * 5 * 5) * (8 // 4) * 9


MATMULS = {
    "mm": lambda: torch.mm(torch.randn(3, 5), torch.randn(5, 7)),
    "mm.out": lambda: torch.mm(torch.randn(3, 5), torch.randn(5, 7), out=torch.empty(3, 7)),
    "addmm": lambda: torch.addmm(torch.randn(7), torch.randn(3, 5), torch.randn(5, 7)),
    "addmm.out": lambda: torch.addmm(torch.randn(7), torch.randn(3, 5), torch.randn(5, 7), out=torch.empty(3, 7)),
    "addmm_": lambda: torch.randn(3, 7).addmm_(torch.randn(3, 5), torch.randn(5, 7)),
    "matmul": lambda: torch.randn(3, 5) @ torch.randn(5, 7),
    "linear": lambda: F.linear(torch.randn(3, 5), torch.randn(7, 5), torch.randn(7)),
    "einsum": lambda: torch.einsum("ik,kj->ij", torch.randn(3, 5), torch.randn(5, 7)),
    "_addmm_activation": lambda: torch._addmm_activation(torch.randn(7), torch.randn(3, 5), torch.randn(5, 7)),
    "double": lambda: torch.randn(3, 5).double() @ torch.randn(5, 7).double(),
    "complex": lambda: torch.randn(3, 5, dtype=torch.cfloat) @ torch.randn(5, 7, dtype=torch.cfloat),
    "integer": lambda: torch.ones(3, 5, dtype=torch.long) @ torch.ones(5, 7, dtype=torch.long),
    "chain": lambda: torch.linalg.multi_dot([torch.randn(3, 5), torch.randn(5, 7)]),
    "sublist of out": lambda: torch.matmul(torch.randn(3, 5), torch.randn(5, 7), out=torch.empty(3, 7)),
}


@pytest.mark.parametrize("name", MATMULS)
def test_every_way_to_multiply_two_matrices_is_counted_once(count, name):
    assert count(MATMULS[name]).hardware_flop == 2 * 3 * 5 * 7


BATCHED = {
    "bmm": lambda: torch.bmm(torch.randn(2, 3, 5), torch.randn(2, 5, 7)),
    "bmm.out": lambda: torch.bmm(torch.randn(2, 3, 5), torch.randn(2, 5, 7), out=torch.empty(2, 3, 7)),
    "baddbmm": lambda: torch.baddbmm(torch.randn(2, 3, 7), torch.randn(2, 3, 5), torch.randn(2, 5, 7)),
    "baddbmm_": lambda: torch.randn(2, 3, 7).baddbmm_(torch.randn(2, 3, 5), torch.randn(2, 5, 7)),
    "addbmm": lambda: torch.addbmm(torch.randn(3, 7), torch.randn(2, 3, 5), torch.randn(2, 5, 7)),
    "matmul": lambda: torch.randn(2, 3, 5) @ torch.randn(2, 5, 7),
    "vmap": lambda: torch.vmap(torch.mm)(torch.randn(2, 3, 5), torch.randn(2, 5, 7)),
}


@pytest.mark.parametrize("name", BATCHED)
def test_batches_of_matrices(count, name):
    assert count(BATCHED[name]).hardware_flop == 2 * 2 * 3 * 5 * 7


def test_vectors(count):
    assert count(lambda: torch.mv(torch.randn(3, 5), torch.randn(5))).hardware_flop == 30
    assert count(lambda: torch.dot(torch.randn(5), torch.randn(5))).hardware_flop == 10
    assert count(lambda: torch.addmv(torch.randn(3), torch.randn(3, 5), torch.randn(5))).hardware_flop == 30


def test_what_fails_is_not_counted(count):
    def broken():
        with pytest.raises(RuntimeError):
            torch.mm(torch.randn(3, 5), torch.randn(4, 7))

    assert count(broken).calls == 0


def test_elementwise_work_costs_nothing_and_meta_tensors_are_not_work(count):
    def run():
        torch.relu(torch.randn(9) + 1).sum()
        torch.randn(3, 5, device="meta") @ torch.randn(5, 7, device="meta")

    assert count(run).calls == 0


def test_a_training_step_of_a_gpt_is_what_its_shapes_say(count):
    model = Gpt()
    linears, scores = gpt_flop(3, 16)
    got = count(lambda: gpt_step(model))
    # Fused attention: forward 4·pairs·d, backward 10 executed and 8 needed; linears three times.
    assert got.hardware_flop == 3 * linears + scores + scores * 10 // 4
    assert got.model_flop == 3 * linears + scores + scores * 8 // 4
    assert got.recomputed_flop == 0
    assert got.tokens == 3 * 16 and got.samples == 3 and got.token_rows == 64
    assert {kind for _, kind, _ in got.rows} == {"fp32"}


@pytest.mark.parametrize("kind", ["reentrant", "plain"])
def test_what_checkpointing_runs_again_is_recomputed_and_not_needed(count, kind):
    plain, again = Gpt(), Gpt(checkpoint=kind)
    base, got = count(lambda: gpt_step(plain)), count(lambda: gpt_step(again))
    assert got.model_flop == base.model_flop
    assert got.recomputed_flop == got.hardware_flop - base.hardware_flop > 0
    assert got.samples == 3


def test_nested_and_selective_checkpoints(count):
    from torch.utils.checkpoint import checkpoint

    block, x = Block(16, 2), torch.randn(2, 8, 16, requires_grad=True)
    base = count(backward_of(lambda: block(x)))
    nested = count(
        backward_of(lambda: checkpoint(lambda y: checkpoint(block, y, use_reentrant=False), x, use_reentrant=False))
    )
    assert nested.model_flop == base.model_flop
    assert nested.recomputed_flop == nested.hardware_flop - base.hardware_flop > 0
    selective = pytest.importorskip("torch.utils.checkpoint")
    if hasattr(selective, "create_selective_checkpoint_contexts"):
        keep = [torch.ops.aten.addmm.default, torch.ops.aten.mm.default]
        context = lambda: selective.create_selective_checkpoint_contexts(keep)  # noqa: E731
        got = count(backward_of(lambda: checkpoint(block, x, use_reentrant=False, context_fn=context)))
        assert got.model_flop == base.model_flop
        # Only attention is recomputed.
        assert got.recomputed_flop == got.hardware_flop - base.hardware_flop == 4 * 2 * 36 * 16


def test_a_gradient_penalty_recomputes_nothing(count):
    layer, x = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(4, 6, requires_grad=True)

    def run():
        (gradient,) = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
        ((gradient.norm(dim=1) - 1) ** 2).mean().backward()

    got = count(run)
    assert got.recomputed_flop == 0 and got.model_flop == got.hardware_flop > 0


def test_functional_gradients_recompute_nothing(count):
    """torch.func.grad records its backward without keeping the graph."""
    layer, x = nn.Linear(8, 8), torch.randn(5, 3, 8)
    weights = dict(layer.named_parameters())

    def loss(weights, x):
        return torch.func.functional_call(layer, weights, (x,)).sum()

    product = 2 * 3 * 8 * 8
    for run, times in (
        (lambda: torch.func.grad(loss)(weights, x[0]), 1),
        (lambda: torch.vmap(torch.func.grad(loss), (None, 0))(weights, x), 5),
    ):
        got = count(run)  # forward and the weight's gradient
        assert (got.hardware_flop, got.model_flop, got.recomputed_flop) == (2 * times * product, 2 * times * product, 0)


def test_a_checkpoint_inside_a_gradient_penalty_is_told_apart(count):
    from torch.utils.checkpoint import checkpoint

    layer, x = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(4, 6, requires_grad=True)

    def run(call):
        (gradient,) = torch.autograd.grad(call().sum(), x, create_graph=True)
        ((gradient.norm(dim=1) - 1) ** 2).mean().backward()

    base = count(lambda: run(lambda: layer(x)))
    got = count(lambda: run(lambda: checkpoint(layer, x, use_reentrant=False)))
    assert got.recomputed_flop == got.hardware_flop - base.hardware_flop > 0


def test_autocast_counts_in_the_type_it_runs_in(count):
    layer, x = nn.Linear(16, 16), torch.randn(4, 16)

    def run():
        with torch.autocast("cpu", torch.bfloat16):
            layer(x).float().sum().backward()

    got = count(run)
    assert {kind for (_, kind, _), row in got.rows.items() if row["hardware_flop"]} == {"bf16"}
    assert got.hardware_flop == 2 * 2 * 4 * 16 * 16


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inference_is_counted_once(count, mode):
    model, ids = Gpt(), torch.randint(0, 64, (3, 16))
    linears, scores = gpt_flop(3, 16)

    def run():
        with mode():
            model(ids)

    assert count(run).hardware_flop == linears + scores


def test_the_fast_path_of_an_encoder_layer(count):
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    x = torch.randn(2, 5, 16)

    def run():
        with torch.inference_mode():
            layer(x)

    # Projections cost 4·16·16 and 2·16·32 for each token, scores and values 2·2·25·16 for each sequence.
    assert count(run).hardware_flop == 2 * 10 * (4 * 256 + 2 * 512) + 2 * 2 * 2 * 25 * 16


@pytest.mark.parametrize("kind, gates", [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_recurrent_layers(count, kind, gates):
    layer, x = kind(6, 8, batch_first=True), torch.randn(3, 5, 6)
    forward = 2 * 3 * 5 * gates * 8 * (6 + 8)

    def run():
        with torch.no_grad():
            layer(x)

    assert count(run).hardware_flop == forward


def test_an_lstm_trained(count):
    layer, x = nn.LSTM(6, 8, batch_first=True), torch.randn(3, 5, 6, requires_grad=True)
    assert count(backward_of(lambda: layer(x)[0])).hardware_flop == 3 * 2 * 3 * 5 * 4 * 8 * (6 + 8)


def test_threads_add_up(count):
    layer, x = nn.Linear(16, 16), torch.randn(4, 16)

    def work():
        with torch.no_grad():
            for _ in range(25):
                layer(x)

    def run():
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert count(run).hardware_flop == 6 * 25 * 2 * 4 * 16 * 16


def test_sparse_operands_are_named_and_not_guessed(count):
    sparse = torch.eye(4).to_sparse()
    got = count(lambda: torch.sparse.mm(sparse, torch.randn(4, 3)))
    assert got.hardware_flop == 0 and got.uncounted()


def test_an_operator_defined_later_is_seen(count):
    library = torch.library.Library("mfu_test", "DEF")
    library.define("fancy_matmul(Tensor a, Tensor b) -> Tensor")
    library.impl("fancy_matmul", lambda a, b: a * 1, "CPU")
    a = torch.randn(3, 3)

    def run():
        torch.mm(a, a)
        torch.ops.mfu_test.fancy_matmul(a, a)

    got = count(run)
    assert got.hardware_flop == 54
    assert [row["operator"] for row in got.uncounted()] == ["mfu_test::fancy_matmul"]


def test_bytes_are_operands_and_results(count):
    got = count(lambda: torch.mm(torch.randn(3, 5), torch.randn(5, 7)))
    assert sum(row["bytes"] for row in got.rows.values()) == 4 * (15 + 35 + 21)
