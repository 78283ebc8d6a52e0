"""`with mfu.count()` tells what ran, by operator, type and module, and changes nothing else."""

import os
import pickle
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")
mfu = pytest.importorskip("mfu")
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.drop = torch.nn.Dropout(0.0)  # passes its input on, so it has no work of its own in the backward pass
        self.rest = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
        self.weight = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        return self.rest(self.drop(self.first(x))) @ self.weight


# 4 rows. first: 2·4·16·32 forward, the same for its weight's gradient, none for its input's. rest.0: three times
# 2·4·32·32; rest.2: three times 2·4·32·8. The product with Net's own weight: three times 2·4·8·8.
FIRST, REST, OWN = 2 * 4096, 3 * 8192 + 3 * 2048, 3 * 512
WHOLE = FIRST + REST + OWN


def step(net, x):
    net(x).sum().backward()


def test_totals_by_operator_and_by_module():
    net, x = Net(), torch.randn(4, 16)
    with mfu.count() as counted:
        step(net, x)
    assert counted.model_flop == counted.hardware_flop == counted.get_total_flops() == WHOLE
    assert counted.recomputed_flop == 0 and counted.uncounted == [] and counted.tokens is None
    assert sum(counted.by_operator.values()) == WHOLE and counted.by_dtype == {"fp32": WHOLE}
    assert counted.by_module == {
        "Global": WHOLE,
        "Net": WHOLE,
        "Net.first": FIRST,
        "Net.rest": REST,
        "Net.rest.0": 3 * 8192,
        "Net.rest.2": 3 * 2048,
    }
    assert (
        counted.get_flop_counts()["Net.first"] == {"aten::addmm": FIRST // 2, "aten::mm": FIRST // 2}
        and "aten::mm" in counted.get_flop_counts()["Global"]
    )
    assert (
        "Net.first" in counted.get_table()
        and "Net.rest.0" not in counted.get_table()
        and "Net.rest.0" in counted.get_table(9)
    )


class Straight(Net):
    """Leaves out the module that passes its input on: FlopCounterMode gives it part of its neighbour's backward
    pass."""

    def forward(self, x):
        return self.rest(self.first(x)) @ self.weight


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.down = torch.nn.Conv2d(3, 8, 3, stride=2)
        self.body = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.ReLU())
        self.up = torch.nn.ConvTranspose2d(8, 3, 3)

    def forward(self, x):
        return self.up(self.body(self.down(x)))


class Attention(torch.nn.Module):
    """Attends by plain matmuls; one layer is used twice."""

    def __init__(self):
        super().__init__()
        self.mixed = torch.nn.Linear(16, 48)
        self.out = torch.nn.Linear(16, 16)

    def forward(self, x):
        for _ in range(2):
            q, k, v = self.mixed(x).chunk(3, -1)
            x = x + self.out(torch.softmax(q @ k.transpose(-2, -1), -1) @ v)
        return x


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 16)
        self.blocks = torch.nn.ModuleList([Attention(), torch.nn.Sequential(torch.nn.LayerNorm(16), Attention())])
        self.head = torch.nn.Linear(16, 11, bias=False)

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.mark.parametrize(
    "build, given, depth",
    [
        (Straight, lambda: torch.randn(4, 16), 3),
        (Convolutions, lambda: torch.randn(2, 3, 11, 11), 3),
        (Attention, lambda: torch.randn(2, 5, 16), 2),
        (Nested, lambda: torch.randint(0, 11, (2, 5)), 5),
        (lambda: torch.nn.Sequential(Straight(), torch.nn.Linear(8, 8)), lambda: torch.randn(4, 16), 3),
    ],
)
@pytest.mark.parametrize("backward", [True, False])
def test_each_module_and_operator_is_as_flop_counter_mode_has_it(build, given, depth, backward):
    net, x = build(), given()

    def work():
        with torch.set_grad_enabled(backward):
            loss = net(x).pow(2).sum()
            if backward:
                loss.backward()

    with FlopCounterMode(display=False, depth=depth) as theirs:
        work()
    with mfu.count() as ours:
        work()
    expected = {
        module: {str(operator).replace(".", "::"): flop for operator, flop in by.items()}
        for module, by in theirs.get_flop_counts().items()
        if by
    }
    found = ours.get_flop_counts()
    assert {module: by for module, by in found.items() if module in expected} == expected
    # the others are lists of modules, which nobody calls
    assert all(any(module.startswith(name + ".") for module in expected) for name in found.keys() - expected.keys())
    assert ours.by_module == {module: sum(by.values()) for module, by in found.items()}


def test_flop_counter_mode_runs_inside_and_agrees():
    net, x = Net(), torch.randn(4, 16)
    with mfu.count() as ours, FlopCounterMode(display=False) as theirs:
        step(net, x)
    assert ours.get_total_flops() == theirs.get_total_flops() == WHOLE
    with FlopCounterMode(display=False) as theirs, mfu.count() as ours:
        step(net, x)
    assert ours.get_total_flops() == theirs.get_total_flops() == WHOLE


def test_what_runs_outside_is_not_in_it():
    net, x = Net(), torch.randn(4, 16)
    step(net, x)
    with mfu.count() as counted:
        pass
    step(net, x)
    assert counted.model_flop == 0 and counted.by_module == {"Global": 0} and counted.seconds < 5


def test_counts_within_counts_and_again():
    net, x = Net(), torch.randn(4, 16)
    outer = mfu.count()
    with outer:
        step(net, x)
        with mfu.count() as inner:
            step(net, x)
            assert inner.model_flop == WHOLE  # can be read while the block is open
        step(net, x)
    assert (inner.model_flop, outer.model_flop) == (WHOLE, 3 * WHOLE)
    assert (inner.by_module["Net.rest"], outer.by_module["Net.rest"]) == (REST, 3 * REST)
    with outer:
        step(net, x)
    assert outer.model_flop == WHOLE
    with outer, pytest.raises(RuntimeError, match="open already"):
        outer.__enter__()


def test_an_exception_leaves_as_it_came():
    net, x = Net(), torch.randn(4, 16)

    class Broken(torch.nn.Module):
        def forward(self, x):
            net.first(x)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        with mfu.count() as counted:
            Broken()(x)
    assert counted.model_flop == 4096
    with mfu.count() as counted:
        step(net, x)
        with pytest.raises(KeyError):
            Broken()(x)
        torch.mm(x, x.T)
    assert counted.by_module["Broken"] == 4096 and counted.model_flop == WHOLE + 4096 + 2 * 4 * 16 * 4
    assert counted.by_module["Net"] == WHOLE + 4096  # the layer belongs to Net, whoever calls it


def test_all_threads_are_in_it():
    net, x = Net(), torch.randn(4, 16)

    def work():
        for _ in range(20):
            step(net, x)

    with mfu.count() as counted:
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert counted.model_flop == 80 * WHOLE and counted.by_module["Net.rest"] == 80 * REST
    assert sum(counted.get_flop_counts()["Net.rest"].values()) == 80 * REST and set(
        counted.get_flop_counts()["Net.rest"]
    ) == {"aten::addmm", "aten::mm"}


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_parts_model_from_hardware(reentrant):
    net, x = Net(), torch.randn(4, 16, requires_grad=True)
    with mfu.count() as counted:
        checkpoint(net, x, use_reentrant=reentrant).sum().backward()
        torch.mm(x, x.T)
    forward = 4096 + 8192 + 2048 + 512
    again = forward if reentrant else forward - 512  # the other kind of checkpoint stops before its last operator
    assert counted.recomputed_flop == again and counted.hardware_flop - counted.model_flop == again
    assert counted.model_flop == 3 * forward + 512  # with the input's gradient and the matmul at the end
    assert counted.by_module["Net"] == counted.hardware_flop - 512


def test_results_are_the_same_to_the_bit():
    def train(counting):
        torch.manual_seed(1)
        net, x = Net(), torch.randn(4, 16)
        optimizer = torch.optim.AdamW(net.parameters())
        for _ in range(5):
            optimizer.zero_grad()
            if counting:
                with mfu.count():
                    step(net, x)
            else:
                step(net, x)
            optimizer.step()
        return [weight.detach().clone() for weight in net.parameters()]

    assert all(torch.equal(a, b) for a, b in zip(train(False), train(True)))


def test_hooks_are_gone_afterwards():
    hooks = torch.nn.modules.module
    before = len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)
    with mfu.count():
        assert len(hooks._global_forward_hooks) == before[0] + 1
    assert (len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)) == before
    with mfu.count(modules=False) as counted:
        assert (len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)) == before
        step(Net(), torch.randn(4, 16))
    assert counted.model_flop == WHOLE


def test_modules_pickle_export_and_trace_inside():
    net, x = Net().eval(), torch.randn(4, 16)
    with mfu.count():
        again = pickle.loads(pickle.dumps(net))
        exported = torch.export.export(net, (x,))
        traced = torch.jit.trace(net, x)
    with torch.no_grad():
        assert (
            torch.equal(again(x), net(x))
            and torch.equal(exported.module()(x), net(x))
            and torch.equal(traced(x), net(x))
        )


def test_torch_compile_of_the_whole_graph_inside():
    net, x = Net(), torch.randn(4, 16)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    with mfu.count() as counted:
        compiled(x).sum().backward()
    assert counted.model_flop == WHOLE and counted.by_module["Global"] == WHOLE


def test_gradients_by_function_and_second_order():
    net, x = Net(), torch.randn(4, 16, requires_grad=True)
    with mfu.count() as counted:
        [gradient] = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        gradient.pow(2).sum().backward()
    assert counted.recomputed_flop == 0 and counted.model_flop > WHOLE


def test_a_decorator_counts_every_call_anew():
    counter = mfu.count()
    decorated = counter(step)
    for _ in range(2):
        decorated(Net(), torch.randn(4, 16))
    assert counter.model_flop == WHOLE


def test_nothing_is_printed_unless_asked(capfd):
    with mfu.count():
        step(Net(), torch.randn(4, 16))
    assert capfd.readouterr() == ("", "")
    with mfu.count(display=True):
        step(Net(), torch.randn(4, 16))
    assert "Net.first" in capfd.readouterr().out


def test_utilization_of_what_was_counted():
    with mfu.count() as counted:
        step(Net(), torch.randn(4, 16))
    used = counted.utilization(peak=1e12)
    assert used.mfu == pytest.approx(WHOLE / counted.seconds / 1e12)


def python(script, **environment):
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ, OMP_NUM_THREADS="1", **environment),
    )


def test_where_nothing_can_be_counted_the_program_goes_on(tmp_path):
    script = (
        "import mfu, torch\nwith mfu.count() as c:\n    torch.mm(torch.ones(2, 2), torch.ones(2,"
        " 2))\nprint(c.model_flop, c.by_module, c.problem != '')\nwith mfu.count(): pass\n"
    )
    (tmp_path / "broken.so").write_text("no library")
    done = python(script, MFU_OBSERVER_LIBRARY=str(tmp_path / "broken.so"))
    assert (done.returncode, done.stdout) == (0, "None {'Global': 0} True\n") and done.stderr.count(
        "RuntimeWarning"
    ) == 1, done.stderr


def test_a_forked_child_counts_for_itself_and_ends():
    script = """
import os, torch, mfu
torch.set_num_threads(1)
with mfu.count() as c:
    torch.mm(torch.ones(8, 8), torch.ones(8, 8))
    child = os.fork()
    if child == 0:
        torch.mm(torch.ones(8, 8), torch.ones(8, 8))
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), c.model_flop)
"""
    done = python(script)
    assert (done.returncode, done.stdout) == (0, "7 1024\n"), done.stderr
