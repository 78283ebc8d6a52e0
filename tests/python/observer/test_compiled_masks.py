"""Attention masks inside compiled graphs: the true area is counted if sizes alone tell it. Otherwise the assumption is
named."""

import pytest
import torch
from torch.nn import functional as F

HEADS = (2, 2, 64, 16)


def banded(q, k, v):
    rows, columns = torch.arange(64)[:, None], torch.arange(64)[None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(columns <= rows) & (rows - columns < 8))


def padded(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].bool())


def step(function, *more):
    q, k, v = (torch.randn(HEADS, requires_grad=True) for _ in range(3))
    function(q, k, v, *more).sum().backward()


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    yield lambda function: torch.compile(function, dynamic=False)
    torch._dynamo.reset()


def test_a_banded_mask_made_inside_counts_its_true_area_forward_and_backward(count, compiled):
    eager = count(lambda: step(banded))
    function = compiled(banded)
    first, second = count(lambda: step(function)), count(lambda: step(function))
    for got in (first, second):
        assert (got.hardware_flop, got.model_flop) == (eager.hardware_flop, eager.model_flop)
    assert eager.model_flop < eager.hardware_flop / 4


def test_a_mask_that_comes_in_is_counted_over_the_rectangle_and_said(count, compiled, observer, monkeypatch):
    said = []
    library = observer.library()
    monkeypatch.setattr(library, "fact", lambda key, value: said.append(value), raising=False)
    mask = torch.ones(2, 64, dtype=torch.long)
    mask[:, 40:] = 0
    got = count(lambda: step(compiled(padded), mask))
    assert got.hardware_flop > 0 and any(b"full rectangle" in each for each in said)
