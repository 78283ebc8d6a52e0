"""Apex: three pybind modules without a version (apex itself says 0.1).

The signatures are from NVIDIA/apex: csrc/megatron/fused_weight_gradient_dense.cpp, csrc/fused_dense.cpp, csrc/mlp.cpp,
apex/fused_dense/fused_dense.py and apex/mlp/mlp.py. Megatron calls wgrad_gemm_accum_* itself
(core/tensor_parallel/layers.py). Newer versions define operators (torch.ops.apex.fused_dense_linear_bias_forward) and
call them from apex/_extensions/fused_dense_cuda.py and its neighbours, with the same names and arguments.
"""

from .formulas import flattened, matmul, shape_of, type_of
from .wrapping import Aside, Work


def weight_gradient(arguments, result):
    """(input_2d [tokens, k], d_output_2d [tokens, n], d_weight [n, k] += d_outputᵀ × input)"""
    inputs, outputs = arguments.tensor(0, "input_2d"), arguments.tensor(1, "d_output_2d")
    tokens, k = flattened(inputs)
    rows, n = flattened(outputs)
    if tokens != rows:
        raise Aside("input and gradient have different rows")
    return Work(matmul(n, tokens, k), type_of(inputs), inputs)


def linear_forward(arguments, result):
    """(input [m, k], weight [n, k], bias)"""
    inputs, weight = arguments.tensor(0, "input"), arguments.tensor(1, "weight")
    m, k = flattened(inputs)
    return Work(matmul(m, k, shape_of(weight)[0]), type_of(inputs), inputs, weight=weight)


def linear_backward(arguments, result):
    """(input, weight, d_output): both gradients"""
    inputs, weight = arguments.tensor(0, "input"), arguments.tensor(1, "weight")
    m, k = flattened(inputs)
    return Work(2 * matmul(m, k, shape_of(weight)[0]), type_of(inputs), inputs)


def gelu_forward(arguments, result):
    """(input [m, k], weight1 [h, k], bias1, weight2 [n, h], bias2)"""
    inputs, first, second = (
        arguments.tensor(place, name) for place, name in ((0, "input"), (1, "weight1"), (3, "weight2"))
    )
    m, k = flattened(inputs)
    hidden, out = shape_of(first)[0], shape_of(second)[0]
    return Work(matmul(m, k, hidden) + matmul(m, hidden, out), type_of(inputs), inputs, weight=first)


def gelu_backward(arguments, result):
    """(input, gelu_in, output1, weight1, weight2, d_output2): four gradients"""
    inputs, first, second = (
        arguments.tensor(place, name) for place, name in ((0, "input"), (3, "weight1"), (4, "weight2"))
    )
    m, k = flattened(inputs)
    hidden, out = shape_of(first)[0], shape_of(second)[0]
    return Work(2 * (matmul(m, k, hidden) + matmul(m, hidden, out)), type_of(inputs), inputs)


def _layers(bias, inputs):
    """Inputs are (input, weights…[, biases…])."""
    count = len(inputs) - 1
    weights = inputs[1 : 1 + (count // 2 if bias else count)]
    rows = flattened(inputs[0])[0]
    return [matmul(rows, *reversed(shape_of(weight))) for weight in weights], inputs


def mlp_forward(arguments, result):
    """(use_bias, activation, inputs)"""
    flop, inputs = _layers(arguments.need(0, "use_bias"), arguments.need(2, "inputs"))
    return Work(sum(flop), type_of(inputs[0]), inputs[0], weight=inputs[1])


def mlp_backward(arguments, result):
    """(use_bias, activation, grad_o, fprop_outputs, inputs): computes the input's gradient only if it is needed."""
    flop, inputs = _layers(arguments.need(0, "use_bias"), arguments.need(4, "inputs"))
    total = 2 * sum(flop) - (0 if inputs[0].requires_grad else flop[0])
    return Work(total, type_of(inputs[0]), inputs[0])


ENTRIES = {
    "fused_weight_gradient_mlp_cuda": {
        name: weight_gradient
        for name in ("wgrad_gemm_accum_fp32", "wgrad_gemm_accum_fp16", "wgrad_gemm_accum_bf16")
    },
    "fused_dense_cuda": {
        "linear_bias_forward": linear_forward,
        "linear_bias_backward": linear_backward,
        "linear_gelu_linear_forward": gelu_forward,
        "linear_gelu_linear_backward": gelu_backward,
    },
    "mlp_cuda": {"forward": mlp_forward, "backward": mlp_backward},
}


def install(module, book):
    if not book.reads(("apex",), (0, 0), (0, 9)):
        return
    name = module.__name__.rpartition(".")[2]
    found = 0
    for function, formula in ENTRIES.get(name, {}).items():
        found += book.wrap(module, function, formula, f"apex::{name}.{function}")
    if name in ENTRIES and not found:
        raise Aside(f"{name} has none of the functions that were read")
    for function in dir(module):
        if not function.startswith("_") and any(
            word in function for word in ("gemm", "linear", "forward", "backward", "fwd", "bwd")
        ):
            book.named(module, function, operator=f"apex::{name}.{function}")
