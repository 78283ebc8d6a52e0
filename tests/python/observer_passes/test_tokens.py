"""Tokens, samples and padding: what enters a model, whatever the order of its axes, and what masks and labels
exclude."""

import pytest
import torch
from models import Gpt, gpt_step
from test_phases import phases, train  # noqa: F401: a fixture
from torch import nn
from torch.nn import functional as F

ROWS = [5, 8, 3]  # real tokens of each sequence
LENGTH = 8
PADDED = sum(LENGTH - row for row in ROWS)


def batch(left=False):
    ids, mask = torch.randint(1, 64, (3, LENGTH)), torch.zeros(3, LENGTH, dtype=torch.long)
    for i, row in enumerate(ROWS):
        mask[i, LENGTH - row if left else 0 : LENGTH if left else row] = 1
    return ids * mask, mask, torch.where(mask == 1, ids, -100)


class Recurrent(nn.Module):
    def __init__(self, kind, batch_first):
        super().__init__()
        self.batch_first = batch_first
        self.table, self.rnn = nn.Embedding(64, 16), getattr(nn, kind)(16, 16, 2, batch_first=batch_first)
        self.head = nn.Linear(16, 64)

    def forward(self, ids):
        return self.head(self.rnn(self.table(ids))[0])


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer_says_which_axis_is_the_batch(phases, kind, batch_first):  # noqa: F811
    model = Recurrent(kind, batch_first)
    ids = torch.randint(0, 64, (3, 11) if batch_first else (11, 3))

    def step(model):
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()

    def program():
        train(model, make=step)
        model.eval()
        with torch.no_grad():
            for _ in range(2):
                F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    found = phases(program)
    name = type(model).__name__
    assert set(found) == {("train", name), ("validation", name)}
    assert [
        (row["passes"], row["tokens"], row["samples"]) for row in (found["train", name], found["validation", name])
    ] == [(3, 3 * 33, 3 * 3), (2, 2 * 33, 2 * 3)]


def test_every_pass_of_a_model_that_is_only_used_brings_samples(phases):  # noqa: F811
    model, ids = Gpt().eval(), torch.randint(0, 64, (3, 16))

    def program():
        with torch.no_grad():
            for _ in range(5):
                model(ids)

    row = phases(program)["forward", "Gpt"]
    assert (row["passes"], row["samples"], row["tokens"]) == (5, 15, 5 * 48)


class Attention(nn.Module):
    """One layer, which attends in one of three ways: fused, or by a softmax over 4 or over 3 dimensions."""

    def __init__(self, how, causal=True):
        super().__init__()
        self.how, self.causal = how, causal
        self.table, self.qkv, self.head = nn.Embedding(64, 16), nn.Linear(16, 48), nn.Linear(16, 64)

    def forward(self, ids, mask=None):
        b, t = ids.shape
        q, k, v = (x.view(b, t, 2, 8).transpose(1, 2) for x in self.qkv(self.table(ids)).chunk(3, -1))
        allowed = torch.ones(t, t, dtype=torch.bool).tril() if self.causal else torch.ones(t, t, dtype=torch.bool)
        if mask is not None:
            allowed = allowed & mask.bool()[:, None, None, :]
        if self.how == "fused":
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        elif self.how == "float":
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float).min)
            )
        else:
            scores = (q @ k.transpose(-2, -1)).masked_fill(~allowed, -1e9)
            y = (scores.softmax(-1) if self.how == "softmax" else scores.flatten(0, 1).softmax(-1).view_as(scores)) @ v
        return self.head(y.transpose(1, 2).reshape(b, t, 16))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("how", ["fused", "float", "softmax", "softmax3"])
def test_a_mask_tells_which_tokens_are_padding(phases, how, causal, left):  # noqa: F811
    model, (ids, mask, _) = Attention(how, causal), batch(left)
    found = phases(lambda: train(model, make=lambda model: model(ids, mask).sum().backward()))
    row = found["train", "Attention"]
    assert (row["tokens"], row["padded_tokens"]) == (3 * 3 * LENGTH, 3 * PADDED)


@pytest.mark.parametrize("how", ["fused", "softmax"])
def test_a_causal_mask_pads_nothing(phases, how):  # noqa: F811
    model, (ids, _, _) = Attention(how), batch()
    assert (
        phases(lambda: train(model, make=lambda model: model(ids).sum().backward()))["train", "Attention"][
            "padded_tokens"
        ]
        == 0
    )


def cut(logits, labels):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def shifted(logits, labels):
    """transformers does this."""
    return F.cross_entropy(logits.flatten(0, 1), F.pad(labels, (0, 1), value=-100)[..., 1:].flatten())


def aligned(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def across(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels)


def chunked(logits, labels):
    parts = zip(logits.flatten(0, 1).split(7), labels.flatten().split(7))
    return sum(F.cross_entropy(*part, reduction="sum") for part in parts)


def compared(logits, labels):
    """TRL does this."""
    keep = labels[:, 1:] != -100
    chosen = logits[:, :-1].log_softmax(-1).gather(-1, labels[:, 1:].clamp(min=0)[..., None])[..., 0]
    return -(chosen * keep).sum()


@pytest.mark.parametrize("loss", [cut, shifted, aligned, across, chunked, compared])
def test_labels_of_minus_100_tell_which_tokens_are_padding(phases, loss):  # noqa: F811
    model, (ids, _, labels) = Gpt(), batch()
    found = phases(lambda: train(model, make=lambda model: loss(model(ids), labels).backward()))
    assert found["train", "Gpt"]["padded_tokens"] == 3 * PADDED


def test_a_mask_and_labels_are_one_padding(phases):  # noqa: F811
    """The labels also exclude the prompt; a token that both exclude counts once."""
    model, (ids, mask, labels) = Attention("fused"), batch()
    labels[:, :2] = -100
    found = phases(lambda: train(model, make=lambda model: shifted(model(ids, mask), labels).backward()))
    assert found["train", "Attention"]["padded_tokens"] == 3 * (PADDED + 3 * 2)


def test_labels_of_classes_pad_no_tokens(phases):  # noqa: F811
    class Classifier(Gpt):
        def forward(self, ids):
            return super().forward(ids)[:, -1]

    model, ids = Classifier(), torch.randint(0, 64, (3, 16))
    found = phases(
        lambda: train(model, make=lambda model: F.cross_entropy(model(ids), torch.tensor([1, -100, 2])).backward())
    )
    assert found["train", "Classifier"]["padded_tokens"] == 0


def test_validation_by_hand_with_small_batches_is_validation(phases):  # noqa: F811
    """The passes meet a loss, so they are not those of a policy that acts."""
    model, ids = Gpt(), torch.randint(0, 64, (1, 16))

    def program():
        train(model)
        model.eval()
        with torch.no_grad():
            for _ in range(4):
                F.cross_entropy(model(ids)[0], ids[0])

    assert phases(program)["validation", "Gpt"]["passes"] == 4


def test_the_batch_is_found_where_gpt_step_makes_it(phases):  # noqa: F811
    assert phases(lambda: train(Gpt(), make=gpt_step))["train", "Gpt"]["samples"] == 9


def test_a_compiled_product_with_a_bias_has_the_rows_of_its_input(observer):
    from mfu._observer.compiled import Graph

    added, rows, weight = (("t", "torch.float32", sizes) for sizes in ((96,), (32, 16), (16, 96)))
    description = {
        "nodes": [("aten::addmm", (added, rows, weight, ("i", 1), ("i", 1)), False)],
        "lookups": [],
        "unknown": [],
        "symbols": {},
        "device": None,
    }
    assert Graph(description, observer.library()).numbers([])[0][0].leading == 32


def test_one_sequence_is_one_sample(phases):  # noqa: F811
    """In every product the number of rows equals the number of tokens."""

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.first, self.second = nn.Embedding(64, 16), nn.Linear(16, 16), nn.Linear(16, 64)

        def forward(self, ids):
            return self.second(self.first(self.table(ids)).relu())

    ids = torch.randint(0, 64, (1, 11))
    row = phases(lambda: train(Mixer(), make=lambda model: aligned(model(ids), ids).backward()))["train", "Mixer"]
    assert (row["samples"], row["tokens"]) == (3, 33)


def test_a_cache_that_looks_the_whole_sequence_up_brings_its_last_token(phases):  # noqa: F811
    """Like x-transformers: every token is looked up again, but only the last one goes on to the layers."""

    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.qkv, self.head = nn.Embedding(64, 8), nn.Linear(8, 24), nn.Linear(8, 64)
            self.keys = self.values = None

        def forward(self, ids):
            x = self.table(ids)
            x = x if self.keys is None else x[:, -1:]
            q, k, v = self.qkv(x).chunk(3, -1)
            self.keys = k if self.keys is None else torch.cat((self.keys, k), 1)
            self.values = v if self.values is None else torch.cat((self.values, v), 1)
            return self.head(torch.softmax(q @ self.keys.mT, -1) @ self.values + self.qkv(x)[..., :8])[:, -1]

    model, ids = Cached().eval(), torch.randint(0, 64, (2, 5))

    def program(ids=ids):
        with torch.no_grad():
            for _ in range(4):
                ids = torch.cat((ids, model(ids).argmax(-1, keepdim=True)), 1)

    found = {key[0]: (row["passes"], row["tokens"]) for key, row in phases(program).items()}
    assert found == {"prefill": (1, 10), "decode": (3, 6)}


def test_a_table_looked_up_twice_before_anything_is_computed_is_one_pass(phases):  # noqa: F811
    """An encoder and a decoder look their tokens up in one table."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.net = nn.Embedding(64, 8), nn.Transformer(8, 2, 1, 1, 8, batch_first=True)
            self.head = nn.Linear(8, 64)

        def forward(self, source, target):
            return self.head(self.net(self.table(source), self.table(target)))

    source, target = torch.randint(0, 64, (3, 5)), torch.randint(0, 64, (3, 7))
    found = phases(lambda: train(Both(), make=lambda model: model(source, target).sum().backward()))
    assert {key[0] for key in found} == {"train"}
    row = found["train", "Both"]
    assert (row["passes"], row["tokens"], row["samples"]) == (3, 3 * (3 * 5 + 3 * 7), 3 * 3)
