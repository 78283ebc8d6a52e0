"""Where steps end, and how the time is split."""

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
    """Forgets the optimizers of other tests, so that none of them ends steps here."""
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


class Orthogonal(torch.optim.SGD):
    """Like Muon: iterates matrix products over each gradient."""

    def step(self, closure=None):
        with torch.no_grad():
            for weight in (each for group in self.param_groups for each in group["params"] if each.grad.dim() == 2):
                gradient = weight.grad / weight.grad.norm()
                for _ in range(3):
                    square = gradient @ gradient.T
                    gradient = 1.5 * gradient - 0.5 * square @ gradient
                weight.grad = gradient
        return super().step(closure)


def test_what_an_optimizer_multiplies_is_needed_too(count, oracle, fresh):
    model = nn.Linear(6, 2)
    optimizer = Orthogonal(model.parameters(), lr=0.1)
    # 4 rows: forward and the weight's gradient, since the input needs none. Then 3 × (2×6 · 6×2 + 2×2 · 2×6).
    expected = 2 * (2 * 4 * 6 * 2) + 3 * (2 * 2 * 6 * 2 + 2 * 2 * 2 * 6)
    # from here on torch also runs hooks for the base class's step(); it must still be one step
    torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    got = count(lambda: stepped(model, optimizer))
    assert (got.model_flop, got.hardware_flop, got.recomputed_flop, got.steps) == (expected, expected, 0, 1)
    assert oracle(lambda: stepped(model, optimizer)) == expected


def test_a_closure_that_an_optimizer_calls_again_is_one_step_and_all_of_it_counts(count, fresh):
    model, x = nn.Linear(6, 2), torch.randn(4, 6)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, tolerance_grad=0, tolerance_change=0)
    calls = []

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        return loss

    got = count(lambda: optimizer.step(closure))
    assert len(calls) > 1 and got.steps == 1
    # and its own products of vectors, if it makes them as matrices
    assert got.model_flop == got.hardware_flop >= len(calls) * 2 * (2 * 4 * 6 * 2)
    assert sum(row["calls"] for key, row in got.rows.items() if "addmm" in key[0]) == len(calls)


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
    # Runs in its own process, because the widest table is found for the whole process.
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
    """Uses stand-ins, so that no GPU is needed."""
    from types import SimpleNamespace

    from mfu._observer import boundaries

    told = {}
    monkeypatch.setattr(boundaries, "_facts_told", False)
    monkeypatch.setattr(torch.cuda, "get_device_properties",
                        lambda device: SimpleNamespace(name="Some GPU", uuid="0a1b-2c"))
    parameter = SimpleNamespace(device=torch.device("cuda:1"), requires_grad=True)
    boundaries._tell_facts(
        SimpleNamespace(fact=told.__setitem__), SimpleNamespace(param_groups=[{"params": [parameter]}])
    )
    device = {b"device": b"cuda:1 Some GPU", b"device_uuid": b"0a1b-2c", b"tf32": b"0", b"tf32_convolution": b"1"}
    assert {key: told.get(key) for key in device} == device and told[b"optimizer_tensors"] == b"1"


def test_an_optimizer_called_once_for_each_group_steps_once(count, fresh):
    """DeepSpeed's ZeRO does this."""
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2))
    optimizer = torch.optim.SGD([{"params": part.parameters()} for part in model], lr=0.1)

    def run():
        groups = optimizer.param_groups
        for _ in range(4):
            model(torch.randn(4, 6)).sum().backward()
            for group in groups:
                optimizer.param_groups = [group]
                optimizer.step()
            optimizer.param_groups = groups
            optimizer.zero_grad()

    assert count(run).steps == 4


def test_optimizers_that_step_inside_the_backward_make_one_step(count, fresh):
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2))
    optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for each in model.parameters():
        each.register_post_accumulate_grad_hook(step)

    def run():
        for _ in range(3):
            model(torch.randn(4, 6)).sum().backward()

    got = count(run)
    assert got.steps == 3 and got.samples == 3 * 4


def test_gradients_set_by_hand_are_steps_too(count, fresh):
    """Evolution strategies have no backward between the forwards of two steps."""
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run():
        for _ in range(3):
            with torch.no_grad():
                model(torch.randn(4, 6))
            for each in model.parameters():
                each.grad = torch.randn_like(each)
            optimizer.step()

    assert count(run).steps == 3


FUNCTIONAL = """
import torch
from torch.func import grad
from mfu import _observer
_observer.start(region_folder="")
w, kept = torch.randn(6, 2), []
if {keep}:
    kept = [w]
for _ in range(5):
    w = w - 0.1 * grad(lambda w, x: (x @ w).pow(2).mean())(w, torch.randn(4, 6))
_observer.library().last_step()
print(_observer.totals().steps)
"""

BY_HAND = """
import torch
from mfu import _observer
_observer.start(region_folder="")
w = torch.randn(6, 2, requires_grad=True)
for _ in range(5):
    gradient, = torch.autograd.grad((torch.randn(4, 6) @ w).pow(2).mean(), [w])
    with torch.no_grad():
        w -= 0.1 * gradient
_observer.library().last_step()
print(_observer.totals().steps)
"""

INNER = """
import torch
from mfu import _observer
_observer.start(region_folder="")
w = torch.randn(6, 2, requires_grad=True)
outer = torch.optim.SGD([w], lr=0.1)
for _ in range(3):
    fast = w
    for _ in range(2):
        gradient, = torch.autograd.grad((torch.randn(4, 6) @ fast).pow(2).mean(), [fast], create_graph=True)
        fast = fast - 0.1 * gradient
    outer.zero_grad()
    (torch.randn(4, 6) @ fast).pow(2).mean().backward()
    outer.step()
_observer.library().last_step()
print(_observer.totals().steps)
"""


@pytest.mark.parametrize("program, steps", [
    (FUNCTIONAL.format(keep=False), 5), (FUNCTIONAL.format(keep=True), 5), (BY_HAND, 5), (INNER, 3)])
def test_updates_by_given_gradients_are_steps_unless_there_is_an_optimizer(program, steps):
    assert run_program(program).split()[-1] == str(steps)


STATE = """
import torch
from torch import nn
from mfu import _observer
_observer.start(region_folder="")
model = nn.Linear(6, 2)
optimizer = torch.optim.Adam(model.parameters())
for each in model.parameters():
    each.grad = torch.zeros_like(each)
optimizer.step()
for _ in range(3):
    model(torch.randn(4, 6)).sum().backward()
    optimizer.step()
print(_observer.totals().steps)
"""


def test_a_step_that_only_makes_the_optimizers_state_is_none():
    """DeepSpeed's ZeRO does this before anything is computed."""
    assert run_program(STATE).split()[-1] == "3"
