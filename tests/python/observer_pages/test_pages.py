"""Passes of a serving engine: packed sequences, attention over pages of a cache, weights that a library packed. The
operators have vLLM's names and schemas, but compute nothing here. Each phase must equal the closed form."""

import time

import pytest
import torch
from test_phases import phases  # noqa: F401: a fixture
from torch import nn

LAYERS, HEADS, SHARED, WIDTH, HIDDEN, FFN, VOCAB = 2, 4, 2, 32, 128, 256, 512
ATTENTION = (
    "cpu_attention_with_kv_cache(Tensor query, Tensor key_cache, Tensor value_cache, Tensor(a3!) output,"
    " Tensor query_start_loc, Tensor seq_lens, float scale, bool causal, Tensor? alibi_slopes,"
    " SymInt sliding_window_size, Tensor block_table, float softcap, Tensor scheduler_metadata, Tensor? s_aux,"
    ' Tensor? dynamic_causal, float k_scale=1.0, float v_scale=1.0, str kv_cache_dtype="auto") -> ()'
)


@pytest.fixture(scope="module")
def kernels():
    """Registered as in vLLM: attention for every key, as if it were composite, and the product for the CPU."""
    if hasattr(torch.ops._C, "cpu_attention_with_kv_cache"):
        pytest.skip("a torch without vLLM's operators is not at hand")
    library = torch.library.Library("_C", "FRAGMENT")
    library.define(ATTENTION)
    library.impl("cpu_attention_with_kv_cache", lambda *given: None, "CompositeImplicitAutograd")
    library.define("onednn_mm(Tensor! c, Tensor a, Tensor? bias, Tensor handler_tensor) -> ()")
    library.impl("onednn_mm", lambda *given: None, "CPU")
    return library


def product(rows, inner, columns):
    out = torch.empty(rows, columns, dtype=torch.bfloat16)
    torch.ops._C.onednn_mm(out, torch.empty(rows, inner, dtype=torch.bfloat16), None, torch.empty(1))


class Engine(nn.Module):
    def __init__(self, window=-1):
        super().__init__()
        self.table = nn.Embedding(VOCAB, HIDDEN, dtype=torch.bfloat16)
        self.window = window

    def forward(self, lengths, logits=None):
        """lengths: for each sequence (new tokens, tokens in the cache including the new ones). logits: number of rows,
        by default one for each sequence."""
        rows = sum(new for new, _ in lengths)
        self.table(torch.zeros(rows, dtype=torch.long))
        starts = [0]
        for new, _ in lengths:
            starts.append(starts[-1] + new)
        starts, used = (torch.tensor(each, dtype=torch.int32) for each in (starts, [all_ for _, all_ in lengths]))
        cache = torch.empty(8, SHARED, 32, WIDTH, dtype=torch.bfloat16)
        query = torch.empty(rows, HEADS, WIDTH, dtype=torch.bfloat16)
        for _ in range(LAYERS):
            product(rows, HIDDEN, (HEADS + 2 * SHARED) * WIDTH)
            torch.ops._C.cpu_attention_with_kv_cache(
                query, cache, cache, query.clone(), starts, used, 1.0, True, None, self.window, torch.zeros(1), 0.0,
                torch.zeros(1), None, None)
            product(rows, HEADS * WIDTH, HIDDEN)
            product(rows, HIDDEN, 2 * FFN)
            product(rows, FFN, HIDDEN)
        product(len(lengths) if logits is None else logits, HIDDEN, VOCAB)


MATRICES = LAYERS * (HIDDEN * (HEADS + 2 * SHARED) * WIDTH + HEADS * WIDTH * HIDDEN + 3 * HIDDEN * FFN)
CACHED = LAYERS * SHARED * 2 * WIDTH * 2  # bytes of a token in the cache


def need(rows, logits, pairs):
    return 2 * MATRICES * rows + 2 * HIDDEN * VOCAB * logits + LAYERS * 4 * HEADS * WIDTH * pairs


def causal(length):
    return length * (length + 1) // 2


def serve(engine, passes):
    def program():
        with torch.inference_mode():
            for each in passes:
                engine(*each) if isinstance(each, tuple) else engine(each)

    return program


def test_prompts_and_decoding_sequences_of_one_pass_are_split(kernels, phases):  # noqa: F811
    passes = [[(5, 5), (9, 9)], [(1, 6), (1, 10), (7, 7)], [(1, 7), (1, 11), (1, 8)]]
    found = phases(serve(Engine(), passes))
    assert set(found) == {("prefill", "Engine"), ("decode", "Engine")}
    prefill, decode = found["prefill", "Engine"], found["decode", "Engine"]
    assert (prefill["tokens"], decode["tokens"]) == (5 + 9 + 7, 5)
    assert prefill["model_flop"] == need(21, 3, causal(5) + causal(9) + causal(7))
    assert decode["model_flop"] == need(5, 5, 6 + 10 + 7 + 11 + 8)
    assert prefill["samples"] == 3
    weights = 2 * (MATRICES + HIDDEN * VOCAB) * 3
    cache = CACHED * (21 + 5 + (5 + 9 + 6 + 10 + 7))
    assert prefill["moved_bytes"] + decode["moved_bytes"] == weights + cache


def test_a_prompt_in_pieces_is_prefill_and_a_window_is_its_window(kernels, phases):  # noqa: F811
    found = phases(serve(Engine(window=4), [[(8, 8), (1, 20)], [(6, 14), (1, 21)]]))
    prefill, decode = found["prefill", "Engine"], found["decode", "Engine"]
    assert (prefill["tokens"], decode["tokens"]) == (14, 2)
    assert prefill["model_flop"] == need(14, 2, causal(8) - causal(4) + 6 * 4)
    assert decode["model_flop"] == need(2, 2, 8)


def test_a_few_tokens_that_all_need_logits_are_decoding(kernels, phases):  # noqa: F811
    found = phases(serve(Engine(), [([(10, 10)],), ([(4, 14), (4, 30)], 8)]))
    prefill, decode = found["prefill", "Engine"], found["decode", "Engine"]
    assert (prefill["tokens"], decode["tokens"]) == (10, 8)
    pairs = sum(range(11, 15)) + sum(range(27, 31))
    assert decode["model_flop"] == need(8, 8, pairs)


def test_more_sequences_than_fit_on_the_stack_are_split_too(kernels, phases):  # noqa: F811
    lengths = [(1, 5 + i) for i in range(100)] + [(3, 3)] * 20
    found = phases(serve(Engine(), [lengths]))
    assert found["decode", "Engine"]["tokens"] == 100
    assert found["decode", "Engine"]["model_flop"] == need(100, 100, sum(5 + i for i in range(100)))
    assert found["prefill", "Engine"]["model_flop"] == need(60, 20, 20 * causal(3))


def test_passes_without_attention_are_no_generation(kernels, phases):  # noqa: F811
    """An engine runs its model once to see how much memory is left."""

    class Warm(Engine):
        def forward(self, rows):
            self.table(torch.zeros(rows, dtype=torch.long))
            product(rows, HIDDEN, FFN)

    assert set(phases(serve(Warm(), [64]))) == {("forward", "Warm")}


def test_attention_that_a_trial_pass_leaves_out_is_not_missing(kernels, count):
    library = torch.library.Library("vllm", "FRAGMENT")
    library.define(
        "unified_attention_with_output(Tensor query, Tensor key, Tensor value, Tensor(a!) output, str layer) -> ()"
    )
    fill, given = [], torch.randn(4, 5, HEADS, WIDTH)
    library.impl(
        "unified_attention_with_output", lambda *given: [given[3].fill_(each) for each in fill].clear(), "CPU"
    )

    def missing(*values):
        fill[:] = values
        attended = count(lambda: torch.ops.vllm.unified_attention_with_output(*given, "layer"))
        return [each["operator"] for each in attended.uncounted()]

    assert missing() == missing(0.0) == []
    assert missing(0.5) == ["vllm::unified_attention_with_output"]


def test_the_last_pass_is_booked_once_nothing_runs_and_counted_once(kernels, observer, phases):  # noqa: F811
    """An engine kills its workers, so without this a pass that is still open would be lost."""
    engine = Engine()

    def decoded():
        rows = [row for (phase, _), row in observer.phases().items() if phase == "decode" and row["model"] == "Engine"]
        return sum(row["tokens"] for row in rows)

    def program():
        with torch.inference_mode():
            before = decoded()
            engine([(5, 5)])
            engine([(1, 6)])
            until = time.monotonic() + 30
            while decoded() == before and time.monotonic() < until:
                time.sleep(0.02)
            assert decoded() - before == 1
            engine([(1, 7)])

    found = phases(program)
    assert {key[0]: row["tokens"] for key, row in found.items()} == {"prefill": 5, "decode": 2}
    assert found["decode", "Engine"]["model_flop"] == need(2, 2, 6 + 7)
