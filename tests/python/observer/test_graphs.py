"""CUDA graphs, by a stand-in: what was captured counts each time it is replayed."""

import pytest
import torch
from torch import nn

M, K, N = 6, 8, 10


def graph_class():
    """Stands in for torch.cuda.graphs.CUDAGraph; the captured work is a function."""

    class CUDAGraph:
        def capture_begin(self, pool=None, capture_error_mode="global"):
            self.capturing = True

        def capture_end(self):
            self.capturing = False

        def replay(self):
            assert not self.capturing

    return CUDAGraph


@pytest.fixture
def graphs(observer, monkeypatch):
    kind = graph_class()
    monkeypatch.setattr(torch.cuda, "CUDAGraph", kind)  # after the observer started
    return kind


def test_a_captured_product_counts_at_each_replay_and_not_before(graphs, count):
    a, b = torch.randn(M, K), torch.randn(K, N)
    graph = torch.cuda.CUDAGraph()

    def capture():
        graph.capture_begin()
        torch.mm(a, b)
        torch.mm(a, b)
        graph.capture_end()

    assert count(capture).hardware_flop == 0
    replayed = count(lambda: [graph.replay() for _ in range(3)])
    assert replayed.hardware_flop == replayed.model_flop == 3 * 2 * 2 * M * K * N
    assert {name for name, _, reason in replayed.rows} == {"aten::mm"} and replayed.calls == 6
    assert count(lambda: torch.mm(a, b)).hardware_flop == 2 * M * K * N  # the same as before


def test_forward_and_backward_in_two_graphs_are_training(graphs, observer, count):
    """As in torch.cuda.make_graphed_callables, where the replays run in a Function."""
    layer, x = nn.Linear(K, N), torch.randn(M, K, requires_grad=True)
    forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()

    def capture():
        forward.capture_begin()
        out = layer(x)
        forward.capture_end()
        backward.capture_begin()
        grads = torch.autograd.grad(out, (x, layer.weight, layer.bias), torch.ones_like(out))
        backward.capture_end()
        return out, grads

    held = []
    assert count(lambda: held.append(capture())).hardware_flop == 0
    ((out, grads),) = held

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            forward.replay()
            return out.detach()

        @staticmethod
        def backward(ctx, g):
            backward.replay()
            return grads

    before = {key: value["hardware_flop"] for key, value in observer.phases(settle=True).items()}
    counted = count(lambda: Graphed.apply(x, layer.weight, layer.bias).sum().backward())
    assert counted.hardware_flop == 3 * 2 * M * K * N and counted.recomputed_flop == 0
    after = {key: value["hardware_flop"] for key, value in observer.phases(settle=True).items()}
    grown = {key[0]: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}
    assert grown == {"train": 3 * 2 * M * K * N}


def test_a_graph_that_was_captured_unseen_is_named(graphs, count):
    graph = torch.cuda.CUDAGraph()
    graph.capturing = False
    counted = count(graph.replay)
    assert [each["operator"] for each in counted.uncounted()] == ["CUDA graph"]


def test_what_another_thread_computes_meanwhile_counts_at_once(graphs, count):
    import threading

    a, b = torch.randn(M, K), torch.randn(K, N)
    graph = torch.cuda.CUDAGraph()

    def capture():
        graph.capture_begin()
        thread = threading.Thread(target=lambda: torch.mm(a, b))
        thread.start()
        thread.join()
        graph.capture_end()

    assert count(capture).hardware_flop == 2 * M * K * N
    assert count(graph.replay).hardware_flop == 0
