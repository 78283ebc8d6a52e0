"""Where steps end, and what time went to."""

import pytest
import torch
from test_manners import run_program
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def stepped(model, optimizer, x=None):
    optimizer.zero_grad()
    model(torch.randn(4, 6) if x is None else x).sum().backward()
    optimizer.step()


@pytest.fixture
def fresh(observer):
    """No optimizer of another test leads."""
    from mfu._observer import boundaries

    boundaries._leader.leader = None
    return boundaries


def test_an_optimizer_step_ends_a_step_and_accumulation_does_not(count, fresh):
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run():
        for _ in range(3):
            model(torch.randn(4, 6)).sum().backward()
            stepped(model, optimizer)

    got = count(run)
    assert got.steps == 3 and got.samples == 3 * 2 * 4


def test_of_several_optimizers_the_first_one_ends_the_step(count, fresh):
    models = [nn.Linear(6, 2) for _ in range(2)]
    first, second = (torch.optim.Adam(model.parameters()) for model in models)

    def run():
        for _ in range(3):
            stepped(models[0], first)
            for _ in range(2):
                stepped(models[1], second)

    assert count(run).steps == 3


def test_an_optimizer_that_comes_after_the_first_is_gone_leads(count, fresh):
    def run():
        for _ in range(2):
            model = nn.Linear(6, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                stepped(model, optimizer)
            del optimizer, model

    assert count(run).steps == 4


def test_a_step_that_the_scaler_skips_counts(count, fresh):
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    def run(factor):
        optimizer.zero_grad()
        scaler.scale(model(torch.randn(4, 6)).sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()

    assert count(lambda: (run(1), run(float("inf")), run(1))).steps == 3


def test_tokens_are_those_of_the_table_with_the_most_rows():
    # A process of its own: the widest table is the process's.
    program = """
    import torch
    from mfu import _observer
    words, kinds, ids = torch.nn.Embedding(5000, 4), torch.nn.Embedding(3, 4), torch.randint(0, 3, (6, 7))
    _observer.start(region_folder="")
    for _ in range(2):
        (kinds(ids) + words(ids)).sum().backward()
    got = _observer.totals()
    print(got.token_rows, got.tokens, got.samples)
    """
    assert run_program(program) == "5000 84 12\n"


def test_a_batch_fetched_is_a_pass_of_its_own():
    # Samples of an evaluation without a vocabulary: one batch after the other.
    program = """
    import torch
    from mfu import _observer
    from torch.utils.data import DataLoader, TensorDataset
    _observer.start(region_folder="")
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        for (x,) in DataLoader(TensorDataset(torch.randn(10, 3)), batch_size=4):
            layer(x)
    print(_observer.totals().samples)
    """
    assert run_program(program) == "10\n"


def test_loading_and_saving_do_not_end_steps(count, fresh, tmp_path):
    def run():
        for (x,) in DataLoader(TensorDataset(torch.randn(8, 6)), batch_size=4):
            x.sum()
        torch.save({}, tmp_path / "state.pt")

    assert count(run).steps == 0


def test_a_gpu_is_told_by_name_and_uuid(monkeypatch):
    """With stand-ins: no GPU is needed."""
    from types import SimpleNamespace

    from mfu._observer import boundaries

    told = {}
    monkeypatch.setattr(boundaries, "_facts_told", False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="0a1b-2c"))
    parameter = SimpleNamespace(device=torch.device("cuda:1"))
    boundaries._tell_facts(SimpleNamespace(fact=told.__setitem__), SimpleNamespace(param_groups=[{"params": [parameter]}]))
    assert told == {b"device": b"cuda:1 Some GPU", b"device_uuid": b"0a1b-2c", b"tf32": b"0"}
