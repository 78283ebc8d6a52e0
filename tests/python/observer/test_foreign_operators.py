"""Operators of other libraries that the dispatcher sees are counted, recognised as wrappers, or named."""

import torch

M, K, N = 6, 8, 10
# fbgemm_gpu/experimental/gen_ai/src/quantize/quantize_defs_ops.cpp of pytorch/FBGEMM
LIBRARY = torch.library.Library("fbgemm", "FRAGMENT")
OURS = torch.library.Library("mfu_foreign", "FRAGMENT")


def define(library, schema, function, key="CPU"):
    library.define(schema)
    library.impl(schema.split("(")[0], function, key)


def fp8(*shape):
    return torch.zeros(*shape, dtype=torch.float8_e4m3fn)


def test_grouped_products_of_fbgemm_count(count):
    define(
        LIBRARY,
        "f8f8bf16_rowwise_grouped(Tensor[] XQ, Tensor[] WQ, Tensor[] x_scale, Tensor[] w_scale) -> Tensor[]",
        lambda x, w, a, b: [torch.zeros(i.shape[0], j.shape[0]) for i, j in zip(x, w)],
    )
    define(
        LIBRARY,
        "f8f8bf16_rowwise_grouped_stacked(Tensor XQ, Tensor WQ, Tensor x_scale, Tensor w_scale, Tensor M_sizes) ->"
        " Tensor",
        lambda x, w, a, b, sizes: torch.zeros(x.shape[0], w.shape[1]),
    )
    define(
        LIBRARY,
        "bf16i4bf16_rowwise(Tensor X, Tensor WQ, Tensor w_scale, Tensor w_zp) -> Tensor",
        lambda x, w, a, b: torch.zeros(x.shape[0], w.shape[0]),
    )
    one = torch.ones(1)
    counted = count(
        lambda: torch.ops.fbgemm.f8f8bf16_rowwise_grouped(
            [fp8(M, K), fp8(2, K)], [fp8(N, K), fp8(4, K)], [one, one], [one, one]
        )
    )
    assert counted.hardware_flop == 2 * M * K * N + 2 * 2 * K * 4 and {key[1] for key in counted.rows} == {"fp8"}
    stacked = count(
        lambda: torch.ops.fbgemm.f8f8bf16_rowwise_grouped_stacked(
            fp8(M, K), fp8(3, N, K), one, one, torch.tensor([1, 2, 3])
        )
    )
    assert stacked.hardware_flop == 2 * M * K * N
    packed = torch.zeros(N, K // 2, dtype=torch.int8)
    mixed = count(
        lambda: torch.ops.fbgemm.bf16i4bf16_rowwise(torch.zeros(M, K, dtype=torch.bfloat16), packed, one, one)
    )
    assert mixed.hardware_flop == 2 * M * K * N and {key[1] for key in mixed.rows} == {"bf16"}


def test_an_unknown_operator_whose_inside_is_counted_is_a_wrapper(count):
    define(OURS, "my_attention(Tensor a, Tensor b) -> Tensor", lambda a, b: a @ b, "CompositeExplicitAutograd")
    counted = count(lambda: torch.ops.mfu_foreign.my_attention(torch.randn(M, K), torch.randn(K, N)))
    assert counted.hardware_flop == 2 * M * K * N and counted.uncounted() == []


def test_names_that_look_like_products_are_named(count):
    names = ("f8f8bf16_new", "bf16bf16bf16_new", "thing_grouped", "thing_fw", "thing_gemm")
    for name in names:
        define(OURS, f"{name}(Tensor a) -> Tensor", lambda a: a.clone())
    counted = count(lambda: [getattr(torch.ops.mfu_foreign, name)(torch.randn(2)) for name in names])
    assert sorted(each["operator"] for each in counted.uncounted()) == sorted(
        f"mfu_foreign::{name}" for name in names
    )


def test_an_operator_that_multiplies_nothing_is_not_named(count):
    for name in ("permute_grouped", "rms_norm", "add_one"):
        define(OURS, f"{name}(Tensor a) -> Tensor", lambda a: a.clone())
    counted = count(
        lambda: [
            getattr(torch.ops.mfu_foreign, name)(torch.randn(2))
            for name in ("permute_grouped", "rms_norm", "add_one")
        ]
    )
    assert counted.uncounted() == []
