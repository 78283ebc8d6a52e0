"""TransformerEngine: its products and fused attention are counted exactly, forward and backward."""

import pytest
import torch
from test_libraries import K, M, N, by_operator, train, types_of


def test_a_linear_layer_of_transformer_engine_counts_forward_and_both_gradients(standin, count):
    (te,) = standin("transformer_engine.pytorch")
    counted = count(train(te.Linear(K, N), (2, 3, K)))
    assert by_operator(counted) == {"transformer_engine::generic_gemm": 3 * 2 * M * K * N}
    assert counted.model_flop == 3 * 2 * M * K * N and counted.recomputed_flop == 0
    assert types_of(counted) == {"fp32"} and not counted.uncounted()
    assert standin.said["transformer_engine"][:2] == ("2.8.0+abc", "counted")


def test_checkpointing_a_layer_of_transformer_engine_counts_its_second_forward_as_recomputation(standin, count):
    from torch.utils.checkpoint import checkpoint

    (te,) = standin("transformer_engine.pytorch")
    layer = te.Linear(K, N)
    for reentrant in (False, True):
        counted = count(train(lambda x: checkpoint(layer, x, use_reentrant=reentrant), (M, K)))
        assert counted.hardware_flop == 4 * 2 * M * K * N
        assert counted.model_flop == 3 * 2 * M * K * N and counted.recomputed_flop == 2 * M * K * N


def test_its_training_is_in_the_phase_train(standin, observer, count):
    (te,) = standin("transformer_engine.pytorch")
    layer = te.Linear(K, N)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step():
        train(layer, (M, K))()
        optimizer.step()

    observer.phases(settle=True)
    before = {key: value["hardware_flop"] for key, value in observer.phases(settle=True).items()}
    count(step)
    after = {key: value["hardware_flop"] for key, value in observer.phases(settle=True).items()}
    grown = {key[0]: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}
    assert grown == {"train": 3 * 2 * M * K * N}


def test_fp8_operands_count_as_fp8(standin, count):
    standin("transformer_engine.pytorch")
    import transformer_engine_torch as tex

    class Float8TensorBase:  # pytorch/tensor/_internal/float8_tensor_base.py: it is not a tensor, but holds the bytes
        def __init__(self, rows, columns):
            self._data = torch.zeros(rows, columns, dtype=torch.uint8)
            self._fp8_dtype = "kFloat8E4M3"
            self.device = self._data.device

        def size(self, *args):
            return self._data.size(*args)

    rest = (None, None, None, None, None, False, None, False, torch.empty(4), 4, False, False)
    counted = count(lambda: tex.generic_gemm(Float8TensorBase(N, K), True, Float8TensorBase(M, K), False, *rest))
    assert counted.hardware_flop == 2 * M * K * N and types_of(counted) == {"fp8"}


def test_grouped_products_of_transformer_engine_add_up(standin, count):
    standin("transformer_engine.pytorch")
    import transformer_engine_torch as tex

    weights, rows = [torch.randn(N, K) for _ in range(3)], [torch.randn(size, K) for size in (4, 0, 5)]
    out = [torch.zeros(size, N) for size in (4, 0, 5)]
    counted = count(
        lambda: tex.te_general_grouped_gemm(
            weights, True, rows, False, out, None, [4, 0, 5], [], None, False, [], False, [], 0, False, False, 0
        )
    )
    assert counted.hardware_flop == 2 * 9 * K * N


@pytest.mark.parametrize("later", [False, True], ids=["2.4", "with softmax_type and bottom_right_diagonal"])
@pytest.mark.parametrize(
    "mask, window, seen",
    [
        ("NVTE_NO_MASK", (-1, -1), 2 * 16),
        ("NVTE_CAUSAL_MASK", (-1, 0), 2 * 10),
        ("NVTE_CAUSAL_MASK", (1, 0), 2 * 7),
        ("NVTE_PADDING_CAUSAL_MASK", (-1, 0), 6 + 3),
    ],
)
def test_fused_attention_of_transformer_engine_counts_what_its_mask_lets_through(
    standin, count, mask, window, seen, later
):
    standin("transformer_engine.pytorch")
    import transformer_engine_torch as tex

    q = torch.randn(2, 4, 3, 8, dtype=torch.bfloat16)
    offsets = torch.tensor([0, 3, 5], dtype=torch.int32)
    layout, form = tex.NVTE_QKV_Layout.NVTE_BSHD_BSHD_BSHD, (tex.NVTE_QKV_Format.NVTE_BSHD,) * 2
    kinds = (tex.NVTE_Bias_Type.NVTE_NO_BIAS, getattr(tex.NVTE_Mask_Type, mask))
    soft = (tex.NVTE_Softmax_Type.NVTE_VANILLA_SOFTMAX,)
    enums = (layout, *form, *kinds, *soft) if later else (layout, *kinds)
    at = (window, False) if later else (window,)  # bottom_right_diagonal
    rest = (q.dtype, None, None, None, None, None, None, None, None, 0)
    forward = count(
        lambda: tex.fused_attn_fwd(4, 4, True, 0.1, 0.0, True, *enums, *at, offsets, offsets, q, q, q, *rest)
    )
    assert forward.hardware_flop == forward.model_flop == 4 * seen * 3 * 8 and types_of(forward) == {"bf16"}
    backward = count(
        lambda: tex.fused_attn_bwd(
            4, 4, 0.1, 0.0, True, *enums, *at, False, offsets, offsets, q, q, q, q, q, *rest[:1], None, [], *rest[1:6]
        )
    )
    assert backward.hardware_flop == 10 * seen * 3 * 8 and backward.model_flop == 8 * seen * 3 * 8


def test_a_window_of_transformer_engine_begins_where_it_says(standin, count):
    standin("transformer_engine.pytorch")
    import transformer_engine_torch as tex

    q, k = torch.randn(1, 2, 1, 8, dtype=torch.bfloat16), torch.randn(1, 4, 1, 8, dtype=torch.bfloat16)
    kinds = (tex.NVTE_Bias_Type.NVTE_NO_BIAS, tex.NVTE_Mask_Type.NVTE_CAUSAL_MASK)
    for bottom, seen in ((False, 1 + 2), (True, 3 + 4)):
        call = (tex.NVTE_QKV_Layout.NVTE_BSHD_BSHD_BSHD, *kinds, (-1, 0), bottom, None, None, q, k, k, *(None,) * 9)
        offsets = torch.tensor([0, 2]), torch.tensor([0, 4])
        call = (*call[:5], *offsets, *call[7:])
        assert count(lambda: tex.fused_attn_fwd(2, 4, True, 0.1, 0.0, True, *call)).hardware_flop == 4 * seen * 8


def test_products_of_transformer_engine_that_were_not_read_are_named_and_questions_are_not(standin, count):
    standin("transformer_engine.pytorch")
    import transformer_engine_torch as tex

    assert tex.get_fused_attn_backend() == 1
    named = count(lambda: (tex.te_general_grouped_gemm_for_grouped_tensor(), tex.get_fused_attn_backend()))
    assert [each["operator"] for each in named.uncounted()] == [
        "transformer_engine::te_general_grouped_gemm_for_grouped_tensor"
    ]
