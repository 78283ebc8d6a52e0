"""What passes were for: decided by what follows, and their sum is the run's to the digit."""

import pytest
import torch
from models import Gpt, gpt_step
from torch import nn


@pytest.fixture
def phases(observer):
    """phases(function) → {(phase, model's class): numbers} of what it did; their sums are checked against the
    totals."""

    def told(function):
        observer.phases(settle=True)
        before, before_totals = observer.phases(), observer.totals()
        function()
        after, totals = observer.phases(settle=True), observer.totals() - before_totals
        found = {}
        for key, row in after.items():
            left = {name: value - before.get(key, {}).get(name, 0) for name, value in row.items() if name != "model"}
            if left["passes"] or left["hardware_flop"]:
                into = found.setdefault((key[0], row["model"]), dict.fromkeys(left, 0))
                for name, value in left.items():
                    into[name] += value
        for name in ("model_flop", "hardware_flop"):
            assert sum(row[name] for row in found.values()) == getattr(totals, name)
        assert sum(row["tokens"] for row in found.values()) == totals.tokens
        return found

    return told


def train(model, optimizer=None, steps=3, make=gpt_step):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        make(model)
        optimizer.step()
        optimizer.zero_grad()


def test_training_is_training_and_names_its_model(phases):
    model = Gpt()
    found = phases(lambda: train(model))
    assert set(found) == {("train", "Gpt")}
    row = found["train", "Gpt"]
    assert (row["passes"], row["tokens"], row["samples"]) == (3, 3 * 3 * 16, 3 * 3)


@pytest.mark.parametrize("kind", ["reentrant", "plain"])
def test_checkpointed_training_is_training(phases, kind):
    assert set(phases(lambda: train(Gpt(checkpoint=kind)))) == {("train", "Gpt")}


def test_the_model_in_training_in_evaluation_mode_is_validation(phases):
    model, ids = Gpt(), torch.randint(0, 64, (3, 16))

    def program():
        train(model)
        model.eval()
        with torch.no_grad():
            for _ in range(4):
                model(ids)
        model.train()
        train(model)

    found = phases(program)
    assert set(found) == {("train", "Gpt"), ("validation", "Gpt")}
    assert found["validation", "Gpt"]["passes"] == 4 and found["validation", "Gpt"]["tokens"] == 4 * 48


def test_validation_before_the_first_step_is_validation(phases):
    model, ids = Gpt(), torch.randint(0, 64, (3, 16))

    def program():
        model.eval()
        with torch.no_grad():
            model(ids)
        model.train()
        train(model)

    assert phases(program)["validation", "Gpt"]["passes"] == 1


def test_matmuls_of_a_custom_function_are_training(phases):
    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight.t()

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            return grad @ weight, grad.t() @ x

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(8, 8))

        def forward(self, x):
            return Linear.apply(torch.relu(Linear.apply(x, self.first)), self.second)

    assert set(phases(lambda: train(Net(), make=lambda net: net(torch.randn(4, 8)).sum().backward()))) == {
        ("train", "Net")
    }


def test_a_loss_whose_gradient_is_made_in_its_forward_is_training(phases):
    """As Liger's and other chunked losses: the backward multiplies by one number only."""

    class Fused(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            y = x @ weight.t()
            ctx.save_for_backward(y @ weight, y.t() @ x)
            return y.pow(2).sum() / 2

        @staticmethod
        def backward(ctx, grad):
            to_x, to_weight = ctx.saved_tensors
            return grad * to_x, grad * to_weight

    net, head = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), nn.Parameter(torch.randn(16, 8))
    found = phases(lambda: train(net, make=lambda net: Fused.apply(net(torch.randn(4, 8)), head).backward()))
    assert {phase for phase, _ in found} == {"train"}


def test_a_teacher_is_a_forward_and_its_student_trains(phases):
    teacher, student = (
        nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 4)) for _ in range(2)
    )

    def step(net):
        x = torch.randn(4, 8)
        with torch.no_grad():
            target = teacher(x)
        nn.functional.mse_loss(net(x), target).backward()

    found = phases(lambda: train(student, make=step))
    flop = 2 * 4 * (64 + 32 + 16)
    assert found["forward", "Sequential"]["hardware_flop"] == 3 * flop and found["train", "Sequential"]["passes"] == 3


def test_a_teacher_after_its_student_is_a_forward_too(phases):
    teacher, student = (
        nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 4)) for _ in range(2)
    )

    def step(net):
        x = torch.randn(4, 8)
        got = net(x)
        with torch.no_grad():
            target = teacher(x)
        nn.functional.mse_loss(got, target).backward()

    assert phases(lambda: train(student, make=step))["forward", "Sequential"]["hardware_flop"] == 3 * 2 * 4 * (
        64 + 32 + 16
    )


def test_rollouts_that_a_later_backward_uses_are_training(phases):
    """As in torch's REINFORCE example: one backward over all passes of an episode."""
    policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))

    def episode(net):
        kept = [torch.log_softmax(net(torch.randn(1, 4)), -1)[0, 0] for _ in range(150)]
        torch.stack(kept).sum().backward()

    assert {phase for phase, _ in phases(lambda: train(policy, make=episode))} == {"train"}


def test_rollouts_in_evaluation_mode_are_no_validation(phases):
    """As Stable-Baselines3's: the policy acts for a few environments at a time, then trains on what it saw."""
    policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))

    def step(net):
        net.eval()
        with torch.no_grad():
            for _ in range(8):
                torch.multinomial(torch.softmax(net(torch.randn(2, 4)), -1), 1)
        net.train()
        net(torch.randn(64, 4)).sum().backward()

    found = phases(lambda: train(policy, make=step))
    assert {phase for phase, _ in found} == {"train", "forward"} and found["forward", "Sequential"]["passes"] == 3 * 8


def test_inference_with_grad_mode_on_is_no_training(phases):
    model, ids = Gpt(), torch.randint(0, 64, (3, 16))
    assert {phase for phase, _ in phases(lambda: [model(ids) for _ in range(3)])} == {"forward"}
    frozen = Gpt().requires_grad_(False)
    assert {phase for phase, _ in phases(lambda: [frozen(ids) for _ in range(3)])} == {"forward"}


def test_both_networks_of_a_gan_train(phases):
    maker, judge = (
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6)),
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)),
    )
    first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (judge, maker))

    def program():
        for _ in range(4):
            first.zero_grad()
            (-judge(torch.randn(5, 6)).mean()).backward()
            fake = maker(torch.randn(5, 4))
            judge(fake.detach()).mean().backward()
            first.step()
            second.zero_grad()
            (-judge(fake).mean()).backward()
            second.step()

    assert {phase for phase, _ in phases(program)} == {"train"}


def test_spectral_norm_is_part_of_the_pass(phases):
    net = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(8, 16)),
        nn.ReLU(),
        nn.utils.parametrizations.spectral_norm(nn.Linear(16, 4)),
    )
    found = phases(lambda: train(net, make=lambda net: net(torch.randn(5, 8)).sum().backward()))
    assert {phase for phase, _ in found} == {"train"} and sum(row["samples"] for row in found.values()) == 15


def test_two_models_at_work_are_two_entries(phases):
    policy, reference = Gpt(), Gpt(layers=1)
    ids = torch.randint(0, 64, (3, 16))

    def step(net):
        with torch.no_grad():
            reference(ids)
            net(ids)
        gpt_step(net)

    found = phases(lambda: train(policy, make=step))
    assert set(found) == {("train", "Gpt"), ("forward", "Gpt")} and found["forward", "Gpt"]["passes"] == 6


def steps_of(observer, function):
    before = observer.totals().steps
    function()
    return observer.totals().steps - before


def test_a_function_that_calls_its_model_often_is_one_pass_of_training(phases):
    """As torchdiffeq's adjoint does."""
    net = nn.Linear(4, 4)

    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *parameters):
            ctx.save_for_backward(x)
            for _ in range(5):
                x = x + 0.1 * net(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                y = net(x.detach().requires_grad_())
            return (None, *torch.autograd.grad(y, list(net.parameters()), grad))

    def make(net):
        Solve.apply(torch.randn(3, 4), *net.parameters()).sum().backward()

    found = phases(lambda: train(net, make=make))
    assert {key[0] for key in found} == {"train"} and sum(row["passes"] for row in found.values()) == 3


@pytest.mark.parametrize("batched", [False, True])
def test_products_between_backward_and_step_are_training_but_no_pass(phases, batched):
    """A clipping for each sample, an optimizer by hand: no module runs."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))

    def make(model):
        model(torch.randn(4, 6)).sum().backward()
        with torch.no_grad():
            for p in model.parameters():
                if p.ndim == 2:
                    g = p.grad[None] if batched else p.grad
                    p.grad.copy_((g @ g.mT @ g).view_as(p))

    found = phases(lambda: train(model, make=make))
    assert set(found) == {("train", "Sequential")} and found["train", "Sequential"]["passes"] == 3


def test_another_model_between_backward_and_step_is_a_forward(phases):
    model, other = nn.Sequential(nn.Linear(6, 2)), nn.Sequential(nn.Linear(6, 3))

    def make(model):
        model(torch.randn(4, 6)).sum().backward()
        with torch.no_grad():
            other(torch.randn(4, 6))

    assert {key[0] for key in phases(lambda: train(model, make=make))} == {"train", "forward"}


def test_another_model_in_the_midst_of_a_pass_is_a_forward(phases):
    """As MoCo's momentum encoder: its keys are compared with what the model made before."""
    model, momentum = (nn.Sequential(nn.Linear(6, 4), nn.Tanh()) for _ in range(2))

    def make(model):
        x = torch.randn(4, 6)
        queries = model(x)
        with torch.no_grad():
            keys = momentum(x)
        (queries @ keys.t()).sum().backward()

    found = {key[0]: row for key, row in phases(lambda: train(model, make=make)).items()}
    assert set(found) == {"train", "forward"} and found["train"]["passes"] == found["forward"]["passes"] == 3
    assert found["forward"]["hardware_flop"] == 3 * 2 * 4 * 6 * 4


def test_a_forward_that_nothing_comes_back_to_does_not_train_with_the_next_one(phases):
    """As after an adversarial example: grad mode is on, and no backward follows."""
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2))

    def make(model):
        model(torch.randn(4, 6))
        model(torch.randn(4, 6)).sum().backward()

    found = {key[0]: row for key, row in phases(lambda: train(model, make=make)).items()}
    assert found["train"]["passes"] == 3 and found["forward"]["passes"] == 3


def test_a_model_of_one_product_has_a_pass_for_each_call(phases):
    model = nn.Linear(6, 2)

    def program():
        train(model, make=lambda model: model(torch.randn(4, 6)).sum().backward())
        model.eval()
        with torch.no_grad():
            for _ in range(4):
                model(torch.randn(4, 6))

    found = {key[0]: row["passes"] for key, row in phases(program).items()}
    assert found == {"train": 3, "validation": 4}


def test_a_recurrence_by_hand_is_one_pass(phases):
    """One product again and again, and no module: nobody called anything."""
    weight = nn.Parameter(torch.randn(4, 4) / 4)

    def make(_):
        state = torch.randn(3, 4)
        for _ in range(5):
            state = torch.tanh(state @ weight)
        state.sum().backward()

    found = phases(lambda: train(nn.ParameterList([weight]), make=make))
    assert {key[0]: row["passes"] for key, row in found.items()} == {"train": 3}


def test_a_rollout_longer_than_the_table_of_passes_has_them_all(phases):
    policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def make(net):
        with torch.no_grad():
            for _ in range(300):
                net(torch.randn(1, 4))
        net(torch.randn(64, 4)).sum().backward()

    found = {key[0]: row["passes"] for key, row in phases(lambda: train(policy, make=make)).items()}
    assert found == {"train": 3, "forward": 900}


def test_a_frozen_net_that_gradients_pass_is_never_validated(phases):
    """Style transfer: a backward passes through the net to the picture, and its target is no validation."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3)).eval().requires_grad_(False)
    picture = nn.Parameter(torch.randn(1, 3, 8, 8))

    def program():
        target = net(torch.randn(1, 3, 8, 8))
        train(nn.ParameterList([picture]), make=lambda _: (net(picture) - target).pow(2).sum().backward())
        with torch.no_grad():
            net(picture)

    found = {key[0]: row["passes"] for key, row in phases(program).items()}
    assert found == {"train": 3, "forward": 2}


def test_a_clipping_with_grad_mode_on_is_training_but_no_pass(phases):
    """As opacus': gradients of samples are weighed by a batched product after the backward."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))

    def make(model):
        model(torch.randn(4, 6)).sum().backward()
        for p in model.parameters():
            samples = p.grad.detach().expand(4, *p.shape)
            p.grad = torch.einsum("i,i...", torch.ones(4) / 4, samples)

    found = phases(lambda: train(model, make=make))
    assert set(found) == {("train", "Sequential")} and found["train", "Sequential"]["passes"] == 3


def test_an_ensemble_of_stacked_weights_is_a_model(phases):
    class Ensemble(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (nn.Parameter(torch.randn(3, *shape) / 4) for shape in ((6, 8), (8, 2)))

        def forward(self, x):
            return torch.bmm(torch.relu(torch.bmm(x.expand(3, *x.shape), self.first)), self.second)

    model = Ensemble()

    def program():
        train(model, make=lambda model: model(torch.randn(5, 6)).sum().backward())
        model.eval()
        with torch.no_grad():
            for _ in range(2):
                model(torch.randn(5, 6))

    found = phases(program)
    passes = {key: row["passes"] for key, row in found.items()}
    assert passes == {("train", "Ensemble"): 3, ("validation", "Ensemble"): 2}
    assert found["train", "Ensemble"]["samples"] == 3 * 5


def test_the_last_batch_of_a_validation_may_be_small(phases):
    """As in a sliding window: no loader and no loss, and what is left over comes last."""
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def program():
        train(net, make=lambda net: net(torch.randn(8, 4)).sum().backward())
        net.eval()
        with torch.no_grad():
            for size in (8, 8, 1):
                net(torch.randn(size, 4))

    assert {key[0]: row["passes"] for key, row in phases(program).items()} == {"train": 3, "validation": 3}


def test_the_last_pass_of_a_thread_that_lives_on_is_decoding_too(phases):
    """A server generates in a thread of a pool that lives until the process ends."""
    from concurrent.futures import ThreadPoolExecutor

    model, pool = Gpt(layers=1, width=16, heads=2).eval(), ThreadPoolExecutor(1)

    def generate(first):
        with torch.no_grad():
            for length in range(first, first + 4):  # without a cache
                model(torch.zeros(2, length, dtype=torch.long))

    found = phases(lambda: pool.submit(generate, 4).result())
    assert {key[0]: row["tokens"] for key, row in found.items()} == {"prefill": 2 * 4, "decode": 2 * (5 + 6 + 7)}
    again = phases(lambda: pool.submit(generate, 12).result())
    assert {key[0]: row["passes"] for key, row in again.items()} == {"prefill": 1, "decode": 3}
    pool.shutdown()
