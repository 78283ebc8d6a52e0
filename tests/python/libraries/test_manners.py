"""A wrapper changes nothing that others can see of a library: keywords, pickles, signatures, tracing, errors."""

import inspect
import pickle

import pytest
import torch

K, N = 8, 10


def test_keywords_and_places_are_the_librarys(standin, count):
    standin("transformer_engine.pytorch")
    import transformer_engine_torch as tex

    rest = dict.fromkeys(
        "D quantizer output_dtype bias bias_type gelu gelu_in grad workspace workspace_size accumulate"
        " use_split_accumulator".split()
    )
    counted = count(
        lambda: tex.generic_gemm(B=torch.zeros(3, K), transB=False, A=torch.zeros(N, K), transA=True, **rest)
    )
    assert counted.hardware_flop == 2 * 3 * K * N


@pytest.mark.parametrize(
    "modules, path",
    [
        (("transformer_engine.pytorch",), "transformer_engine_torch.generic_gemm"),
        (("flash_attn", "flash_attn_2_cuda"), "flash_attn_2_cuda.varlen_fwd"),
        (("flash_attn.cute.interface",), "flash_attn.cute.interface._flash_attn_fwd"),
        (("grouped_gemm",), "grouped_gemm_backend.gmm"),
        (("deep_gemm",), "deep_gemm.fp8_gemm_nt"),
        (("flashinfer",), "flashinfer.single_prefill_with_kv_cache"),
        (("unsloth.kernels.utils",), "unsloth.kernels.utils.fast_gemv"),
    ],
)
def test_a_wrong_call_raises_what_the_library_raises_and_counts_nothing(standin, count, modules, path):
    import importlib

    standin(*modules)
    module, _, name = path.rpartition(".")
    function = getattr(importlib.import_module(module), name)
    original = function.__wrapped__
    for args, kwargs in (((), {}), ((1, 2), {"nobody": 3}), (([],) * 40, {})):

        def raised(call):
            with pytest.raises(Exception) as error:
                call(*args, **kwargs)
            return type(error.value), str(error.value)

        assert raised(function) == raised(original)
        assert count(lambda: raised(function)).hardware_flop == 0


def test_what_others_ask_of_a_function_is_answered_as_before(standin):
    (interface,) = standin("flash_attn.cute.interface")
    function, original = interface._flash_attn_fwd, interface._flash_attn_fwd.__wrapped__
    assert inspect.signature(function) == inspect.signature(original)
    assert (function.__name__, function.__qualname__, function.__module__, function.__doc__) == (
        original.__name__,
        original.__qualname__,
        original.__module__,
        original.__doc__,
    )
    assert pickle.loads(pickle.dumps(function)) is function
    assert callable(function) and inspect.isfunction(function)
    assert function.compile_cache is original.compile_cache


def test_a_wrapper_class_keeps_its_identity(standin):
    (infer,) = standin("flashinfer")
    kind = infer.BatchPrefillWithRaggedKVCacheWrapper
    assert isinstance(kind(None), kind) and issubclass(type("Own", (kind,), {}), kind)
    assert kind.begin_forward is kind.plan
    assert "qo_indptr" in inspect.signature(kind.plan).parameters and "q" in inspect.signature(kind.run).parameters
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_tracing_goes_through_a_wrapper_as_through_the_function(standin, count):
    (utils,) = standin("unsloth.kernels.utils")
    x, w = torch.randn(1, 1, K), torch.randn(K, N)
    compiled = torch.compile(lambda x: utils.fast_gemv(x, w, None) * 2, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), torch.matmul(x, w) * 2)  # a graph break would raise here
    assert count(lambda: compiled(x)).hardware_flop == 2 * K * N


def test_what_cannot_be_traced_runs_beside_the_graph_and_counts(standin, count):
    (grouped,) = standin("grouped_gemm")
    a, b, sizes = torch.randn(9, K), torch.randn(3, K, N), torch.tensor([4, 0, 5])
    compiled = torch.compile(lambda a: grouped.gmm(a * 2, b, sizes) + 1, backend="eager")
    expected = grouped.gmm(a * 2, b, sizes) + 1
    assert torch.allclose(compiled(a), expected)
    assert count(lambda: compiled(a)).hardware_flop == 2 * 9 * K * N


def test_a_function_that_raises_inside_leaves_counting_on(standin, count):
    standin("transformer_engine.pytorch")
    import transformer_engine_torch as tex

    rest = (None, None, None, None, None, False, None, False, torch.empty(4), 4, False, False)
    with pytest.raises(RuntimeError):
        tex.generic_gemm(torch.zeros(N, K + 1), True, torch.zeros(3, K), False, *rest)
    assert count(lambda: torch.zeros(3, K) @ torch.zeros(K, N)).hardware_flop == 2 * 3 * K * N
