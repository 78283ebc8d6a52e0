"""What torch.profiler records of real programs is counted from the outermost operator inwards: nothing counts twice,
nothing is missed."""

import json

import pytest

torch = pytest.importorskip("torch")
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import ops_probe  # noqa: E402

pytestmark = pytest.mark.skipif(ops_probe.find_probe() is None, reason="mfu_ops_probe is not built")


def recorded(program, path):
    """(name, arguments as recorded, depth of nesting) of every operator, outer ones before inner ones."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        program()
    profile.export_chrome_trace(str(path))
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "cpu_op"]
    events.sort(key=lambda e: (e["tid"], e["ts"], -e["dur"]))
    open_, rows = [], []
    for event in events:
        while open_ and not (
            open_[-1]["tid"] == event["tid"] and event["ts"] + event["dur"] <= open_[-1]["ts"] + open_[-1]["dur"] + 1e-3
        ):
            open_.pop()
        arguments = event.get("args", {})
        dims, types, values = (arguments.get(key, []) for key in ("Input Dims", "Input type", "Concrete Inputs"))
        values = values or [""] * len(dims)
        flat = [d if all(isinstance(x, int) for x in d) else [] for d in dims]
        rows.append((event["name"], [list(row) for row in zip(types, flat, values, strict=True)], len(open_)))
        open_.append(event)
    return rows


def counted(rows):
    """Totals by operator; the outermost leaf or wrapper counts."""
    roles = {row["name"]: row["role"] for row in ops_probe.ask([{"all": True}])[0]}
    taken, covered_at = [], None
    for name, arguments, depth in rows:
        if covered_at is not None and depth > covered_at:
            continue
        covered_at = None
        role = roles.get(name, roles.get(name.rstrip("_")))
        if role in ("leaf", "cover"):
            covered_at = depth
            taken.append({"operator": name, "recorded": arguments})
    total = {"model": 0, "hardware": 0}
    by_name = {}
    for asked, answer in zip(taken, ops_probe.ask(taken), strict=True):
        assert "error" not in answer, (asked, answer)
        total["model"] += answer["model"]
        total["hardware"] += answer["hardware"]
        by_name[asked["operator"]] = by_name.get(asked["operator"], 0) + answer["hardware"]
    return total, by_name


def by_torch(program):
    with FlopCounterMode(display=False) as mode:
        program()
    return mode.get_total_flops()


def train(model, *inputs):
    def program():
        model.zero_grad()
        out = model(*inputs)
        (out[0] if isinstance(out, tuple) else out).sum().backward()
    return program


def convolutions():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, dilation=2),
        nn.ReLU(),
        nn.Conv2d(16, 4, 1),
        nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1),
        nn.Flatten(),
        nn.LazyLinear(5),
    )


def test_a_perceptron(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(13, 17), torch.nn.ReLU(), torch.nn.Linear(17, 3, bias=False))
    program = train(model, torch.randn(2, 5, 13))
    total, by_name = counted(recorded(program, tmp_path / "t.json"))
    assert total["hardware"] == total["model"] == by_torch(program) == 2 * 10 * (13 * 17 * 2 + 17 * 3 * 3)
    assert set(by_name) <= {"aten::mm", "aten::addmm"}


def test_convolutions_forward_and_backward(tmp_path):
    program = train(convolutions(), torch.randn(2, 3, 24, 24))
    program()
    total, by_name = counted(recorded(program, tmp_path / "t.json"))
    assert total["hardware"] == by_torch(program)
    assert {"aten::convolution", "aten::convolution_backward"} <= set(by_name)


def test_grouped_convolutions_where_torch_overcounts(tmp_path):
    for kind, weight in [
        (torch.nn.Conv1d(6, 12, 3, groups=3), 12 * 2 * 3),
        (torch.nn.ConvTranspose1d(6, 12, 3, groups=3), 6 * 4 * 3),
    ]:
        x = torch.randn(2, 6, 10, requires_grad=True)
        positions = 8 if isinstance(kind, torch.nn.Conv1d) else 10
        total, _ = counted(recorded(train(kind, x), tmp_path / "t.json"))
        assert total["hardware"] == 3 * 2 * 2 * weight * positions
        # its weight gradient is 3 times too large in torch's counter
        assert by_torch(train(kind, x)) == total["hardware"] + 2 * 2 * 2 * weight * positions


def test_attention_on_a_cpu_where_torch_counts_nothing(tmp_path):
    q, k, v = (torch.randn(2, 4, 10, 8, requires_grad=True) for _ in range(3))
    for causal, pairs in [(False, 2 * 4 * 100), (True, 2 * 4 * 55)]:
        def program(causal=causal):
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).sum().backward()
        total, by_name = counted(recorded(program, tmp_path / "t.json"))
        assert total == {"hardware": pairs * (4 + 10) * 8, "model": pairs * (4 + 8) * 8}, by_name


def test_attention_made_of_plain_matmuls(tmp_path):
    q, k, v = (torch.randn(2, 4, 10, 8, requires_grad=True) for _ in range(3))

    def program():
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    total, _ = counted(recorded(program, tmp_path / "t.json"))
    assert total["hardware"] == total["model"] == by_torch(program) == 3 * 4 * 2 * 4 * 100 * 8


def test_the_fast_path_of_multi_head_attention(tmp_path):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(3, 7, 16)

    def program():
        with torch.inference_mode():
            layer(x)
    total, _ = counted(recorded(program, tmp_path / "t.json"))
    assert total["hardware"] == 2 * 21 * (4 * 16 * 16 + 2 * 16 * 32) + 4 * 3 * 7 * 7 * 16


def test_recurrent_layers(tmp_path):
    for kind, gates in [(torch.nn.LSTM, 4), (torch.nn.GRU, 3), (torch.nn.RNN, 1)]:
        model, x = kind(5, 6, num_layers=2, bidirectional=True), torch.randn(4, 3, 5, requires_grad=True)
        weights = 2 * gates * (6 * 5 + 6 * 6) + 2 * gates * (6 * 12 + 6 * 6)
        with torch.no_grad():
            total, by_name = counted(recorded(lambda model=model, x=x: model(x), tmp_path / "t.json"))
        assert total["hardware"] == 2 * 12 * weights, by_name
    model, x = torch.nn.LSTM(5, 6), torch.randn(4, 3, 5, requires_grad=True)
    total, by_name = counted(recorded(train(model, x), tmp_path / "t.json"))
    assert total["hardware"] == 3 * 2 * 12 * 4 * (6 * 5 + 6 * 6), by_name


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="a torch with grouped products is not at hand")
def test_products_of_every_other_kind(tmp_path):
    a, b, batch = torch.randn(6, 7), torch.randn(7, 5), torch.randn(4, 6, 7)
    grouped = torch.randn(16, 8), torch.randn(2, 8, 24), torch.tensor([7, 16], dtype=torch.int32)

    def program():
        torch.einsum("bij,jk->bik", batch, b)                  # 2·4·6·7·5
        torch.mv(a, torch.randn(7))                            # 2·6·7
        torch.dot(torch.randn(9), torch.randn(9))              # 2·9
        torch.addbmm(torch.randn(6, 5), batch, b.expand(4, 7, 5))  # 2·4·6·7·5
        torch.addmm(torch.randn(6, 5), a, b, out=torch.empty(6, 5))  # 2·6·7·5
        torch.zeros(6, 5).addmm_(a, b)                         # 2·6·7·5
        torch.matmul(batch, b)                                 # 2·4·6·7·5
        torch.tensordot(batch, b, dims=1)                      # 2·4·6·7·5
        torch._int_mm(torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 8, dtype=torch.int8))  # 2·32·16·8
        torch._grouped_mm(grouped[0].bfloat16(), grouped[1].bfloat16(), offs=grouped[2])          # 2·16·8·24
        torch.nn.functional.embedding(torch.tensor([1, 2]), a)
    total, by_name = counted(recorded(program, tmp_path / "t.json"))
    product = 2 * 6 * 7 * 5
    assert total["hardware"] == 18 * product + 2 * 42 + 18 + 2 * 32 * 16 * 8 + 2 * 16 * 8 * 24, by_name
