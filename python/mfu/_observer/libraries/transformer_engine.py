"""TransformerEngine 2.0 to 2.21: its pybind module `transformer_engine_torch`, in which Megatron's matmuls run.

The signatures are from NVIDIA/TransformerEngine: transformer_engine/pytorch/csrc/extensions/pybind.cpp, gemm.cpp,
attention.cpp and its callers transformer_engine/pytorch/cpp_extensions/gemm.py and fused_attn.py, in a version with
`softmax_type` and `bottom_right_diagonal` and in one without. The arguments of fused attention are in other places in
other versions, so they are found by their type. With comm_overlap, too, the operands are those of the whole product.
"""

import re

from .formulas import attention, flattened, matmul, pairs, shape_of, wider
from .lengths import by_lengths
from .wrapping import Aside, Like, Work

# Functions that, by their names, multiply or attend in a way that we do not know
# (te_general_grouped_gemm_for_grouped_tensor, …).
OTHERS = re.compile(r"gemm|matmul|attn_(fwd|bwd)|newton_schulz|_mlp")
# Functions that only move data or answer questions.
HARMLESS = re.compile(r"^(get_|is_|set_|init_|bulk_overlap|swizzle)|workspace|backend|support|quantize")


def gemm(a, transposed_a, b, transposed_b):
    """A is [n, k] if its flag is set, else [k, n]. B is [k, m] if its flag is set, else [m, k] (getGemmOutputShape)."""
    if not isinstance(transposed_a, bool) or not isinstance(transposed_b, bool):
        raise Aside("its transpose flags are no booleans")
    rows_a, columns_a = flattened(a)
    rows_b, columns_b = flattened(b)
    n, k = (rows_a, columns_a) if transposed_a else (columns_a, rows_a)
    m, inner = (columns_b, rows_b) if transposed_b else (rows_b, columns_b)
    if k != inner:
        raise Aside(f"inner sizes {k} and {inner} differ")
    return matmul(m, k, n), m


def generic_gemm(arguments, result):
    """(A, transA, B, transB, D, quantizer, output_dtype, bias, bias_type, gelu, gelu_in, grad, workspace, …)"""
    a, b = arguments.tensor(0, "A"), arguments.tensor(2, "B")
    flop, m = gemm(a, arguments.need(1, "transA"), b, arguments.need(3, "transB"))
    return Work(flop, wider(a, b), b, weight=a, leading=m)


def grouped_gemm(arguments, result):
    """(A, transa, B, transb, D, D_type, m_splits, …): lists of A and B, with one product for each pair."""
    left, right = arguments.need(0, "A"), arguments.need(2, "B")
    transposed = arguments.need(1, "transa"), arguments.need(3, "transb")
    total = sum(gemm(a, transposed[0], b, transposed[1])[0] for a, b in zip(left, right))
    if len(left) != len(right) or not len(left):
        raise Aside("its lists have different lengths")
    return Work(total, wider(left[0], right[0]), right[0], weight=left[0])


def _is_enum(value, words):
    name = getattr(value, "name", None)
    return isinstance(name, str) and type(value).__name__ in words


def _of_format(tensor, text):
    """(batch, length) of a tensor with that layout. A batch of 0 means packed."""
    shape, letters = shape_of(tensor), "".join(each for each in text.lower() if each in "bsthd")
    if "t" in letters:
        return 0, shape[0]
    if len(shape) != len(letters):
        raise Aside(f"{text} has {len(shape)} dimensions")
    return shape[letters.index("b")], shape[letters.index("s")]


def fused(backward):
    def formula(arguments, result):
        args = list(arguments.args) + list(arguments.kwargs.values())
        window, bottom = _window(args, backward)
        layout = next((each for each in args if _is_enum(each, ("NVTE_QKV_Layout",))), None)
        mask = next((each for each in args if _is_enum(each, ("NVTE_Mask_Type",))), None)
        tensors = [
            each
            for each in args
            if hasattr(each, "shape") or hasattr(each, "_data") or hasattr(each, "_rowwise_data")
        ]
        if layout is None or mask is None or len(tensors) < 5:
            raise Aside("its layout, mask or operands were not found")
        offsets_q, offsets_k, q, k, v = tensors[:5]
        return _fused(layout.name, mask.name, (window, bottom), (offsets_q, offsets_k), (q, k, v), backward)

    return formula


def _window(args, backward):
    """The window (left, right), and whether it is aligned at the bottom right; None if no argument says so. In newer
    versions that is a boolean behind the window. In backward, `deterministic` follows in any case."""
    for place, each in enumerate(args):
        if isinstance(each, (tuple, list)) and len(each) == 2 and all(isinstance(side, int) for side in each):
            after = [isinstance(value, bool) for value in args[place + 1 : place + 3]]
            told = after == [True, True] if backward else after[:1] == [True]
            return each, args[place + 1] if told else None
    return (-1, -1), None


def _fused(layout, mask, seen, offsets, operands, backward):
    window, bottom = seen
    q, k, v = operands
    parts = layout.replace("NVTE_", "").replace("Paged_KV_", "").split("_")
    batch, queries = _of_format(q, parts[0])
    _, keys = _of_format(k, parts[-1])
    heads, width_qk, width_v = shape_of(q)[-2], shape_of(q)[-1], shape_of(v)[-1]
    if "BHSD" in parts[0]:
        heads = shape_of(q)[1]
    causal, left = "CAUSAL" in mask, window[0]
    right = -1 if causal else window[1]
    bottom_right = "BOTTOM_RIGHT" in mask or (left >= 0 and not causal) if bottom is None else bottom

    like = Like(q, wider(q, k, v))

    def work(lengths_q, lengths_k):
        seen = heads * sum(pairs(a, b, causal, bottom_right, left, right) for a, b in zip(lengths_q, lengths_k))
        hardware, model = attention(seen, width_qk, width_v, backward)
        return Work(hardware, like.type, like, model=model, leading=batch or queries)

    # If sequences are packed, padded or in pages, the offsets give their lengths.
    if batch == 0 or "PADDING" in mask or "Paged" in layout:
        return by_lengths(offsets, work)
    return work([queries] * batch, [keys] * batch)


def install(module, book):
    if not book.reads(("transformer_engine", "transformer-engine", "transformer_engine_torch"), (2, 0), (2, 21)
    ):
        return
    if not book.wrap(module, "generic_gemm", generic_gemm):
        raise Aside("there is no generic_gemm")
    book.wrap(module, "te_general_grouped_gemm", grouped_gemm)
    book.wrap(module, "fused_attn_fwd", fused(False))
    book.wrap(module, "fused_attn_bwd", fused(True))
    for name in dir(module):
        if OTHERS.search(name) and not HARMLESS.search(name) and not isinstance(getattr(module, name), type):
            book.named(module, name)
