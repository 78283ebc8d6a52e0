"""torch.compile in every mode counts what eager counts, with a cold cache and with a warm one in a second process.
These tests are slow, because they compile."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_manners import run_program

HERE = Path(__file__).resolve().parent
MODES = ["default", "cpp_wrapper", "freezing", "dynamic", "reduce-overhead", "max-autotune"]


def run_mode(mode, cache):
    command = [sys.executable, str(HERE / "compiled_program.py"), mode]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=1500, env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


# Everyday tests take the two modes that differ most; MFU_SLOW_TESTS=1 takes all.
@pytest.mark.parametrize("mode", MODES if os.environ.get("MFU_SLOW_TESTS") else MODES[:2])
def test_compiled_is_counted_as_eager(mode, tmp_path):
    import torch

    if mode == "cpp_wrapper" and not (Path(torch.__file__).parent / "include/pybind11/pybind11.h").is_file():
        pytest.skip("pybind11's headers, which Debian's torch leaves out, are not at hand")
    cold, warm = run_mode(mode, tmp_path), run_mode(mode, tmp_path)
    for got in (cold, warm):
        for part in ("first", "second"):
            for name in ("hardware_flop", "model_flop", "recomputed_flop", "tokens", "samples"):
                assert got[part][name] == got["eager"][name], (mode, part, name)
            assert not got[part]["uncounted"]


WARM = """
import os, torch
watched = "MFU_TEST_WATCHED" in os.environ
if watched:
    from mfu import _observer
    _observer.start(region_folder="")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64))
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(2):
    compiled(torch.randint(64, (2, 12))).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
if watched:
    found = _observer.totals()
    print([found.tokens, found.model_flop, len(found.uncounted())])
"""


def test_a_cache_filled_without_mfu_hides_nothing(tmp_path):
    cache = str(tmp_path / "cache")
    run_program(WARM, TORCHINDUCTOR_CACHE_DIR=cache)
    forward = 2 * 24 * 32 * 64
    for _ in range(2):  # compiled again, then from the cache
        got = run_program(WARM, TORCHINDUCTOR_CACHE_DIR=cache, MFU_TEST_WATCHED="1")
        assert json.loads(got.splitlines()[-1]) == [2 * 24, 2 * 3 * forward, 0]


def test_what_a_compiled_checkpoint_runs_again_is_recomputed(tmp_path):
    got = run_mode("checkpoint", tmp_path)
    assert got["first"]["model_flop"] == got["eager"]["model_flop"]
    # Eager stops recomputing once it has what the block saved. That is before the block's last linear, whose output the
    # head kept. The compiler's partitioner keeps nothing of a checkpointed block, so it runs that linear again to give
    # the head its input. The work is really executed, and the dispatcher sees it.
    last = 2 * 16 * 64 * 16
    assert got["first"]["recomputed_flop"] - got["eager"]["recomputed_flop"] in (0, last)
    for name in ("eager", "first", "second"):
        assert (
            got[name]["hardware_flop"] - got[name]["recomputed_flop"]
            == got["eager"]["hardware_flop"] - got["eager"]["recomputed_flop"]
        )


def test_a_package_made_without_mfu_is_counted_when_it_runs(tmp_path):
    program, path = str(HERE / "package_program.py"), str(tmp_path / "model.pt2")
    import torch

    if not hasattr(torch._inductor, "aoti_compile_and_package"):
        pytest.skip("a torch that makes packages is not at hand")
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, program, "make", path], check=True, timeout=1500, env=environment, capture_output=True
    )
    done = subprocess.run(
        [sys.executable, program, "run", path], timeout=600, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    eager, package = json.loads(done.stdout.splitlines()[-1])
    assert package == eager and eager["hardware_flop"] == 2 * 4 * (16 * 32 + 32 * 8)


PLAIN_FLEX = """
import torch
from torch.nn.attention.flex_attention import flex_attention
with torch.no_grad():
    torch.compile(flex_attention)(*(torch.randn(1, 2, 64, 16) for _ in range(3)))
"""
FLEX = """
import json, torch
from mfu import _observer
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
compiled = torch.compile(flex_attention)
_observer.start(region_folder="")
query, key, value = torch.randn(3, 4, 64, 16), torch.randn(3, 2, 64, 16), torch.randn(3, 2, 64, 32)
triangle = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device="cpu")
found = []
for call in (flex_attention, compiled):
    for change in (None, lambda score, b, h, i, j: score * 2):
        before = _observer.totals()
        with torch.no_grad():
            call(query, key, value, score_mod=change, enable_gqa=True)
        found.append((_observer.totals() - before).flop_by_operator())
before = _observer.totals()
with torch.no_grad():
    compiled(*(torch.randn(1, 2, 256, 16) for _ in range(3)), block_mask=triangle)
print(json.dumps([found, [each["operator"] for each in (_observer.totals() - before).uncounted()]]))
"""


def test_compiled_flex_attention_counts_as_eager_and_names_what_blocks_leave_out(tmp_path):
    import torch

    if tuple(int(each) for each in torch.__version__.split(".")[:2]) < (2, 6):
        pytest.skip("flex_attention on a CPU is not at hand before torch 2.6")
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "plain")}
    if subprocess.run([sys.executable, "-c", PLAIN_FLEX], env=environment, capture_output=True).returncode != 0:
        pytest.skip("a torch whose compiled flex_attention this compiler takes is not at hand")
    got = json.loads(run_program(FLEX, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).splitlines()[-1])
    assert got == [[{"aten::bmm": 2 * 3 * 4 * 64 * 64 * (16 + 32)}] * 4, ["torch::flex_attention"]]


# A graph with a table, a product of its own, and two operators of a library: one writes to its first argument, the
# other gives a result. What they compute is known only when they run.
OPERATORS = """
import json, torch
from mfu import _observer

@torch.library.custom_op("mfu_try::mix", mutates_args={"out"})
def mix(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    torch.mm(a, b, out=out)

@torch.library.custom_op("mfu_try::twice", mutates_args=())
def twice(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a @ b) @ b

@twice.register_fake
def _(a, b):
    return a @ b

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.square = torch.nn.Embedding(64, 16), torch.nn.Parameter(torch.randn(16, 16))
        self.head = torch.nn.Linear(16, 64)

    def forward(self, ids):
        hidden = self.table(ids)[0]
        out = torch.empty_like(hidden)
        torch.ops.mfu_try.mix(out, hidden, self.square)
        return self.head(torch.ops.mfu_try.twice(torch.relu(out), self.square))

_observer.start(region_folder="")
model, found = Model().eval(), []
for call in (model, torch.compile(model)):
    for rows in (5, 5, 7):
        before = _observer.totals()
        with torch.no_grad():
            call(torch.arange(rows)[None])
        got = _observer.totals() - before
        found.append([got.hardware_flop, got.model_flop, got.uncounted()])
print(json.dumps([found, [[each["tokens"], each["model_flop"]] for each in _observer.phases(True).values()]]))
"""


def test_operators_that_a_graph_calls_by_name_count_with_a_cold_and_a_warm_cache(tmp_path):
    for _ in range(2):
        found, phases = json.loads(run_program(OPERATORS, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).splitlines()[-1])
        each = [2 * rows * 16 * (3 * 16 + 64) for rows in (5, 5, 7)]
        assert found == [[flop, flop, []] for flop in 2 * each]
        assert phases == [[34, 2 * sum(each)]]
