"""What newer versions and other forks of the libraries add: modules in other places, and functions without a formula,
which are named and never silently left out."""

import sys
import types

import torch

M, K, N = 6, 8, 10


def names(counted):
    return [each["operator"] for each in counted.uncounted()]


def test_modules_of_python_around_the_operators_of_apex_are_counted(standin, count):
    dense, mlp = standin("apex._extensions.fused_dense_cuda", "apex._extensions.mlp_cuda")
    x, w1, w2 = torch.randn(M, K), torch.randn(N, K), torch.randn(4, N)
    flop = 2 * M * K * N
    forward = count(lambda: dense.linear_bias_forward(x, w1, torch.zeros(N)))
    assert forward.hardware_flop == flop and forward.uncounted() == []
    inputs = (x, w1, w2, torch.zeros(N), torch.zeros(4))
    both = flop + 2 * M * N * 4
    assert count(lambda: mlp.forward(1, 1, inputs)).hardware_flop == both
    assert count(lambda: mlp.backward(1, 1, None, None, inputs)).hardware_flop == 2 * both - flop


def test_products_that_a_fork_of_grouped_gemm_adds_are_named(standin, count, monkeypatch):
    """csrc/grouped_gemm.h of the fork: gmmfwd(a, [b, …], c, batch_sizes, compute_streams, trans_a, trans_b, alpha,
    beta)."""
    standin()
    made = types.ModuleType("grouped_gemm_backend")
    made.gmm = lambda a, b, c, batch_sizes, trans_a, trans_b, alpha=1.0, beta=0.0: None
    made.gmmfwd = lambda a, b, c, batch_sizes, streams, trans_a, trans_b, alpha=1.0, beta=0.0: None
    made.permute = lambda rows: rows
    monkeypatch.setitem(sys.modules, "grouped_gemm_backend", made)
    from mfu._observer import imports

    imports.look(whole=True)
    sizes = torch.tensor([4, 0, 5])
    a, b = torch.randn(9, K), torch.randn(3, K, N)
    assert count(lambda: made.gmm(a, b, None, sizes, False, False, 1.0, 0.0)).hardware_flop == 2 * 9 * K * N
    assert names(count(lambda: made.gmmfwd(a, list(b), None, sizes, [], False, False))) == ["grouped_gemm::gmmfwd"]
    assert names(count(lambda: made.permute(a))) == []


FLASHINFER = '''
import torch
__version__ = "0.6.9"


def mm_bf16(a, b, bias=None, pdl=False, out=None, out_dtype=torch.bfloat16, backend="cudnn"):
    return torch.empty(a.shape[0], b.shape[1])


def grouped_mm_bf16(a, b, m_indptr, out=None):
    return torch.empty(a.shape[0], b.shape[1])


def svdquant_linear(x, weight, bias=None):
    return mm_bf16(x, weight)


def prepare_low_latency_gemm_weights(weight):
    return weight


def rmsnorm(x, weight):
    return x


class BatchAttention:
    def plan(self, *args):
        pass

    def run(self, q, kv_cache):
        return q


class MultiLevelCascadeAttentionWrapper:
    def run(self, a, b):
        return mm_bf16(a, b)
'''


def test_functions_and_wrappers_that_flashinfer_adds_are_named_unless_what_they_call_is_counted(
    standin, count, monkeypatch, tmp_path
):
    """Names and arguments as in flashinfer/__init__.py, grouped_mm.py, gemm/gemm_svdquant.py, attention.py and
    cascade.py of flashinfer-ai/flashinfer."""
    standin()
    (tmp_path / "flashinfer").mkdir()
    (tmp_path / "flashinfer" / "__init__.py").write_text(FLASHINFER)
    monkeypatch.syspath_prepend(str(tmp_path))
    (new,) = standin("flashinfer")
    a, b, flop = torch.randn(M, K), torch.randn(K, N), 2 * M * K * N
    assert names(count(lambda: new.grouped_mm_bf16(a, b, None))) == ["flashinfer::grouped_mm_bf16"]
    assert names(count(lambda: new.BatchAttention().run(a, b))) == ["flashinfer::BatchAttention.run"]
    for counted in (
        count(lambda: new.svdquant_linear(a, b)),
        count(lambda: new.MultiLevelCascadeAttentionWrapper().run(a, b)),
    ):
        assert counted.hardware_flop == flop and counted.uncounted() == []
    harmless = count(lambda: (new.prepare_low_latency_gemm_weights(b), new.rmsnorm(a, b), new.BatchAttention().plan()))
    assert harmless.hardware_flop == 0 and harmless.uncounted() == []


def test_a_function_that_flash_attn_2_adds_is_named(standin, count, monkeypatch):
    standin()
    made = types.ModuleType("flash_attn_2_cuda")
    made.fwd = lambda *args: None
    made.sparse_fwd = lambda *args: None
    made.get_scheduler_metadata = lambda *args: None
    monkeypatch.setitem(sys.modules, "flash_attn_2_cuda", made)
    from mfu._observer import imports

    imports.look(whole=True)
    assert names(count(lambda: made.sparse_fwd(torch.randn(2, 4)))) == ["flash_attn_2::sparse_fwd"]
    assert names(count(lambda: made.get_scheduler_metadata())) == []
