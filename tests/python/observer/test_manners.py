"""What an observed process must not notice: results, tracing, pickling, other counters, forks and exit are as without
mfu."""

import io
import json
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from models import Gpt, gpt_step
from torch import nn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def run_program(text, **environment):
    """Runs a program in its own process and returns what it printed, or its error."""
    head = f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(ROOT / 'python')!r}]\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


STEP = """
import hashlib, torch
from models import Gpt, gpt_step
torch.manual_seed(0); torch.set_num_threads(1)
if {observed}:
    from mfu import _observer
    _observer.start(region_folder="")
digest = hashlib.sha256()
for checkpoint in (None, "reentrant", "plain"):
    model = Gpt(checkpoint=checkpoint)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        digest.update(gpt_step(model).detach().numpy().tobytes())
        optimizer.step()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes() + parameter.grad.numpy().tobytes())
print(digest.hexdigest())
"""


def test_results_are_equal_to_the_last_bit():
    assert run_program(STEP.format(observed=True)) == run_program(STEP.format(observed=False))


def test_torch_export_and_jit_work_and_count_nothing_while_tracing(count):
    model, ids = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval(), torch.randn(3, 4)
    exported = []
    assert count(lambda: exported.append(torch.export.export(model, (ids,)))).calls == 0
    forward = 2 * 3 * (4 * 8 + 8 * 2)
    assert count(lambda: exported[0].module()(ids)).hardware_flop == forward
    script = torch.jit.script(model)
    assert count(lambda: script(ids)).hardware_flop == forward
    assert torch.equal(torch.jit.trace(model, ids)(ids), model(ids))


def test_what_torch_tries_on_import_is_not_counted():
    """torch 2.6 multiplies two vectors while it imports torch._dynamo, which an optimizer causes."""
    program = """
        import torch
        from mfu import _observer
        _observer.start(region_folder="")
        torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)
        import torch._dynamo
        totals = _observer.totals()
        print(totals.calls, totals.hardware_flop)
    """
    assert run_program(program).split() == ["0", "0"]


def test_fake_tensors_count_nothing(count):
    from torch._subclasses.fake_tensor import FakeTensorMode

    def run():
        with FakeTensorMode():
            nn.Linear(4, 8)(torch.randn(3, 4))

    assert count(run).calls == 0


def test_pickling_and_saving(count):
    assert pickle.loads(pickle.dumps(torch.save)) is torch.save
    buffer = io.BytesIO()
    torch.save(nn.Linear(2, 2).state_dict(), buffer)
    buffer.seek(0)
    assert set(torch.load(buffer)) == {"weight", "bias"}
    pickle.loads(pickle.dumps(torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)))


def test_other_counters_run_inside_and_agree(count, oracle):
    layer, x = nn.Linear(8, 8), torch.randn(4, 8)
    theirs = []
    got = count(lambda: theirs.append(oracle(lambda: layer(x).sum().backward())))
    assert got.hardware_flop == theirs[0]
    with torch.profiler.profile(with_flops=True, record_shapes=True) as profile:
        got = count(lambda: layer(x))
    assert sum(event.flops for event in profile.key_averages() if event.key == "aten::addmm") == got.hardware_flop


def test_a_forked_child_has_counts_of_its_own_and_may_leave_by_exit(tmp_path):
    # Both processes leave a region. The child's region holds what the child did, although it runs no exit handler.
    program = """
    import os, torch
    from mfu import _observer
    _observer.start()
    torch.set_num_threads(1)
    a = torch.randn(8, 8)
    torch.mm(a, a)
    child = os.fork()
    if child == 0:
        torch.mm(a, a); torch.mm(a, a)
        got = _observer.totals()
        os.write(1, f"{got.hardware_flop}\\n".encode())
        os._exit(0)
    os.waitpid(child, 0)
    print(_observer.totals().hardware_flop)
    """
    out = run_program(program, MFU_REGION_DIR=str(tmp_path))
    assert [int(line) for line in out.split()] == [2 * 2 * 8**3, 2 * 8**3]
    assert len(list(tmp_path.iterdir())) == 2


def test_threads_that_count_while_others_fork_and_exit():
    program = """
    import os, threading, torch
    from mfu import _observer
    _observer.start(region_folder="")
    torch.set_num_threads(1)
    a, stop = torch.randn(4, 4), False
    def work():
        while not stop:
            torch.mm(a, a)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()
    for _ in range(5):
        child = os.fork()
        if child == 0:
            torch.mm(a, a)
            os._exit(0)
        os.waitpid(child, 0)
    stop = True
    for thread in threads: thread.join()
    print("done")
    """
    assert run_program(program) == "done\n"


def test_nothing_is_printed_and_a_library_that_does_not_fit_is_a_sentence(tmp_path):
    assert (
        run_program(
            "import torch\nfrom mfu import _observer\n_observer.start(region_folder='')\ntorch.mm(torch.ones(2, 2),"
            " torch.ones(2, 2))"
        )
        == ""
    )
    broken = tmp_path / "libmfu_torch.so"
    broken.write_bytes(b"not a library")
    program = """
    import torch
    from mfu import _observer
    try:
        _observer.start(region_folder="")
    except _observer.LibraryError as error:
        print("does not load" in str(error))
    torch.mm(torch.ones(2, 2), torch.ones(2, 2))
    """
    assert run_program(program, MFU_OBSERVER_LIBRARY=str(broken)) == "True\n"


def test_counting_stops_when_told_and_goes_on_when_told_again():
    program = """
    import json, torch
    from mfu import _observer
    a, seen = torch.randn(4, 4), []
    def count():
        before = _observer.totals()
        torch.mm(a, a)
        return (_observer.totals() - before).hardware_flop
    _observer.start(region_folder="")
    _observer.start(region_folder="")
    seen.append(count())
    _observer.stop()
    seen.append(count())
    _observer.stop()
    seen.append(count())
    _observer.start(region_folder="")
    seen.append(count())
    print(json.dumps(seen))
    """
    assert json.loads(run_program(program)) == [128, 128, 0, 128]


def test_an_exception_in_an_operator_leaves_no_trace(count):
    layer = nn.Linear(4, 4)
    with pytest.raises(RuntimeError):
        layer(torch.randn(2, 5))
    assert count(lambda: layer(torch.randn(2, 4))).hardware_flop == 2 * 2 * 16


def test_gradient_hooks_and_double_backward_still_work():
    model = Gpt()
    gpt_step(model)
    assert all(parameter.grad is not None for parameter in model.parameters())
