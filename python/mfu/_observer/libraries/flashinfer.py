"""FlashInfer 0.1 to 0.6: Python functions over TVM-FFI; its register_custom_op returns the plain function.

The signatures are from flashinfer-ai/flashinfer: flashinfer/prefill.py, mla.py (BatchMLAPagedAttentionWrapper), gemm/
and fused_moe/core.py (the functions named below), and from docs.flashinfer.ai for the wrappers of decode and prefill.
Functions and methods are plain Python, so arguments are taken by name. A wrapper's plan() gets the lengths of the
sequences and its run() attends; lengths are read when they have arrived (lengths.py). `run_return_lse` is a
partialmethod of the run that was there before we wrapped it, so it is made again.
"""

import functools
import re
import sys

from .flash_attn_2 import worker
from .formulas import pairs, product, shape_of, type_of, wider
from .lengths import by_values, differences
from .wrapping import Aside, Like, Work

# Their result is [.., m, n] and their first operand [.., m, k], so k is all that is missing.
GEMMS = """
    mm_fp8 bmm_fp8 mm_fp4 mm_bf16 bmm_bf16 mm_mxfp8 bmm_mxfp8 gemm_fp8_nt_groupwise gemm_fp8_nt_blockscaled
    group_gemm_fp8_nt_groupwise group_deepgemm_fp8_nt_groupwise tgv_gemm_sm100 mm_M1_16_K7168_N256
""".split()
OTHERS = """
    trtllm_batch_decode_with_kv_cache trtllm_batch_context_with_kv_cache trtllm_batch_decode_with_kv_cache_mla
    trtllm_ragged_attention_deepseek xqa xqa_mla cudnn_batch_prefill_with_kv_cache cudnn_batch_decode_with_kv_cache
    fmha_v2_prefill_deepseek trtllm_fp4_block_scale_moe trtllm_fp4_block_scale_routed_moe trtllm_fp8_block_scale_moe
    trtllm_fp8_block_scale_routed_moe trtllm_fp8_per_tensor_scale_moe trtllm_bf16_moe trtllm_mxint4_block_scale_moe
    batch_deepgemm_fp8_nt_groupwise group_gemm_mxfp4_nt_groupwise group_gemm_nvfp4_nt_groupwise
    grouped_gemm_nt_masked gated_delta_rule_decode chunk_gated_delta_rule
""".split()
# Whatever else multiplies or attends by its name: new versions add such functions and wrappers all the time.
REST = re.compile(
    r"(^|_)(b?mm|gemm|gemv|\w*gemm|attention|moe|xqa|mla|fmha|prefill|decode|linear|mqa|kda|gdn|gdp|delta|msa)(_|$)"
)
HARMLESS = re.compile(
    r"^(_|get_|gen_|is_|has_|make_|prepare_|plan|fast_\w*plan|reorder_|interleave_|preprocess_|convert_|fill_|alloc)"
    r"|^(create_|precompile_|compute_|append_|next_|determine_|check_|register_)"
    r"|quantize|plan$|workspace|supported|manifest|metadata|schedule|cache$|_module$|_size|leases|resources"
    r"|diagnostics|uri"
)
KINDS = re.compile(r"Attention|Decode|Prefill|MoE|MLA|GEMM|POD|KDA")


def gemm(function):
    def formula(arguments, result):
        a = next(iter(arguments.named(function).values()), None)
        out = result[0] if isinstance(result, (tuple, list)) else result
        if not hasattr(a, "dtype") or not hasattr(out, "shape"):
            raise Aside("its operand or result was not found")
        packed = str(a.dtype) in ("torch.uint8", "torch.float4_e2m1fn_x2")  # two 4-bit numbers per element
        kind = "fp4" if packed else type_of(a)
        return Work(2 * product(shape_of(out)) * shape_of(a)[-1] * (2 if packed else 1), kind, a)

    return formula


def single(function, decode):
    """[length, heads, width] (NHD) or [heads, length, width] (HND); in decode the query is [heads, width]."""

    def formula(arguments, result):
        given = arguments.named(function)
        q, k, v = given["q"], given["k"], given["v"]
        if given.get("custom_mask") is not None or given.get("packed_custom_mask") is not None:
            raise Aside("a custom mask: what it leaves out is not known")
        places = (0, 1) if given.get("kv_layout", "NHD") == "NHD" else (1, 0)
        queries, heads = (1, shape_of(q)[0]) if decode else (shape_of(q)[places[0]], shape_of(q)[places[1]])
        seen = pairs(
            queries, shape_of(k)[places[0]], bool(given.get("causal", False)), True, given.get("window_left", -1)
        )
        return worker(q, v, False, heads)(seen)

    return formula


def moe(function):
    """Each token goes to as many experts as it has columns; fc1 [experts, a, hidden], fc2 [experts, hidden, b]."""

    def formula(arguments, result):
        given = arguments.named(function)
        x, chosen = given["input"], given["token_selected_experts"]
        first, second = given["fc1_expert_weights"], given["fc2_expert_weights"]
        if given.get("ep_size", 1) not in (1, None):
            raise Aside("experts of other ranks: how many tokens stay is not known")
        packed = str(first.dtype) in ("torch.uint8", "torch.int64", "torch.int32", "torch.float4_e2m1fn_x2")
        if packed:
            raise Aside("packed experts")
        each = product(shape_of(first)[1:]) + product(shape_of(second)[1:])
        return Work(2 * product(shape_of(chosen)) * each, wider(x, first), x, weight=first)

    return formula


class Plan:
    """What a wrapper's plan() said, kept with the wrapper."""

    def __init__(self, given, kind):
        self.kind, self.given = kind, {name: given.get(name) for name in PLANNED}


PLANNED = """
    qo_indptr kv_indptr paged_kv_indptr paged_kv_last_page_len indptr last_page_len kv_len_arr page_size causal
    window_left custom_mask packed_custom_mask num_qo_heads num_heads head_dim_ckv head_dim_kpe
""".split()


def _lengths(indptr, last, page):
    pages = differences(indptr)
    return [(count - 1) * page + rest if count else 0 for count, rest in zip(pages, last)]


def run(plan, function):
    """Counts the pairs of queries and keys that the plan gave."""

    def formula(arguments, result):
        given = arguments.named(function)
        made = getattr(given["self"], "_mfu_plan", None)
        if plan == "mla" and given.get("kv_len") is not None:
            return unplanned(given)
        if made is None:
            raise Aside("it was planned before mfu watched")
        told = made.given
        if told["custom_mask"] is not None or told["packed_custom_mask"] is not None:
            raise Aside("a custom mask: what it leaves out is not known")
        causal, left = bool(told["causal"]), -1 if told["window_left"] is None else told["window_left"]
        seen = lambda a, b: pairs(a, b, causal, True, left)  # noqa: E731
        if plan == "mla":
            q, like = given["q_nope"], Like(given["q_nope"], type_of(given["q_nope"]))
            heads, width, rope = told["num_heads"], told["head_dim_ckv"], told["head_dim_kpe"]
            return by_values(
                (told["qo_indptr"], told["kv_len_arr"]),
                lambda offsets, keys: Work(
                    2 * heads * (2 * width + rope) * sum(map(seen, differences(offsets), keys)), like.type, like
                ),
            )
        q, cache = given["q"], given.get("paged_kv_cache")
        value = given["v"] if plan == "ragged" else cache[1] if isinstance(cache, (tuple, list)) else cache
        make = worker(q, value, False, told["num_qo_heads"])
        if plan == "ragged":
            return by_values(
                (told["qo_indptr"], told["kv_indptr"]),
                lambda a, b: make(sum(map(seen, differences(a), differences(b)))),
            )
        page = told["page_size"]
        if plan == "decode":
            return by_values(
                (told["indptr"], told["last_page_len"]),
                lambda a, b: make(sum(seen(1, keys) for keys in _lengths(a, b, page))),
            )
        return by_values(
            (told["qo_indptr"], told["paged_kv_indptr"], told["paged_kv_last_page_len"]),
            lambda a, b, c: make(sum(map(seen, differences(a), _lengths(b, c, page)))),
        )

    return formula


def unplanned(given):
    """MLA by CUTLASS, which needs no plan. run() gets kv_len, one query per sequence, and its width in two parts."""
    nope, rope = given["q_nope"], given["q_pe"]
    like, heads = Like(nope, type_of(nope)), shape_of(nope)[-2]
    width, more = shape_of(nope)[-1], shape_of(rope)[-1]
    return by_values(
        (given["kv_len"],), lambda keys: Work(2 * heads * (2 * width + more) * sum(keys), like.type, like)
    )


WRAPPERS = {
    "BatchDecodeWithPagedKVCacheWrapper": "decode",
    "BatchPrefillWithPagedKVCacheWrapper": "prefill",
    "BatchPrefillWithRaggedKVCacheWrapper": "ragged",
    "BatchMLAPagedAttentionWrapper": "mla",
}


def _planned(original, kind):
    @functools.wraps(original)
    def plan(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        try:
            import inspect

            bound = inspect.signature(original).bind(self, *args, **kwargs)
            bound.apply_defaults()
            self._mfu_plan = Plan(bound.arguments, kind)
        except Exception:  # noqa: BLE001: then run() is not counted
            self._mfu_plan = None
        return result

    return plan


def segments(function):
    """SegmentGEMMWrapper.run(x [tokens, k], weights, …) → [tokens, n]"""

    def formula(arguments, result):
        given = arguments.named(function)
        x, weights = given["x"], given["weights"]
        return Work(2 * product(shape_of(result)) * shape_of(x)[-1], wider(x, weights), x, weight=weights)

    return formula


def install(module, book):
    if not book.reads(("flashinfer", "flashinfer-python"), (0, 1), (0, 6)):
        return
    owners = [module] + [sys.modules[name] for name in sorted(sys.modules) if name.startswith("flashinfer.")]
    for owner in owners:
        for name in GEMMS:
            if hasattr(owner, name):
                book.wrap(owner, name, gemm(getattr(owner, name)))
        for name in OTHERS:
            book.named(owner, name)
        for name, decode in (("single_prefill_with_kv_cache", False), ("single_decode_with_kv_cache", True)):
            if hasattr(owner, name):
                book.wrap(owner, name, single(getattr(owner, name), decode))
        if hasattr(owner, "cutlass_fused_moe"):
            book.wrap(owner, "cutlass_fused_moe", moe(owner.cutlass_fused_moe))
        for name, kind in WRAPPERS.items():
            _watch_wrapper(book, getattr(owner, name, None), name, kind)
        kind = getattr(owner, "SegmentGEMMWrapper", None)
        if isinstance(kind, type) and "run" in vars(kind):
            book.wrap(kind, "run", segments(kind.run), "flashinfer::SegmentGEMMWrapper.run")
    for owner in owners:
        if owner.__name__.count(".") > 1:
            continue  # what lies deeper is called by these
        book.name_rest(owner, REST, HARMLESS, of="flashinfer")
        for name, kind in list(vars(owner).items()):
            if isinstance(kind, type) and kind.__module__.startswith("flashinfer") and KINDS.search(name):
                _name_class(book, kind)


def _name_class(book, kind):
    for name in ("run", "forward", "run_return_lse", "forward_return_lse"):
        method = vars(kind).get(name)
        if callable(method) and hasattr(method, "__code__") and not getattr(method, "_mfu_wrapped", False):
            book.owners.append((kind, name))
            setattr(kind, name, book.alone(method, f"flashinfer::{kind.__name__}.{name}"))


def _watch_wrapper(book, kind, name, plan):
    if (
        not isinstance(kind, type)
        or "run" not in vars(kind)
        or "plan" not in vars(kind)
        or "_mfu_wrapped" in vars(kind)
    ):
        return
    same = vars(kind).get("begin_forward") is vars(kind)["plan"]
    kind._mfu_wrapped = True
    kind.plan = _planned(kind.plan, plan)
    if same:
        kind.begin_forward = kind.plan
    original = kind.run
    book.wrap(kind, "run", run(plan, original), f"flashinfer::{name}.run")
    for other, value in list(vars(kind).items()):
        if isinstance(value, functools.partialmethod) and value.func is original:
            setattr(kind, other, functools.partialmethod(kind.run, *value.args, **value.keywords))
