"""The test device itself: it runs late, in order, and computes what the CPU computes."""

import copy
import time

import torch


def model():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))


def trained(network, device, steps=3):
    network = copy.deepcopy(network).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x, y = torch.randn(32, 8, generator=generator), torch.randint(4, (32,), generator=generator)
        loss = torch.nn.functional.cross_entropy(network(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in network.parameters()]


def test_training_on_it_gives_what_the_cpu_gives(late):
    network = model()
    for device in ("late:0", "late:1"):
        for mine, expected in zip(trained(network, device), trained(network, "cpu")):
            torch.testing.assert_close(mine, expected)


def test_the_host_runs_ahead_and_a_read_waits(late):
    x = torch.ones(4, 4, device="late")
    (x @ x).cpu()  # this imports the meta kernels that are written in Python, which takes time once
    start = time.monotonic()
    late.sleep(0.3)
    y = x @ x
    launched = time.monotonic() - start
    value = y[0, 0].item()
    assert value == 4 and launched < 0.15 and time.monotonic() - start >= 0.3


def test_events_are_reached_late_and_tell_the_time_between(late):
    first, second = torch.Event("late", enable_timing=True), torch.Event("late", enable_timing=True)
    first.record()
    late.sleep(0.1)
    second.record()
    assert not second.query()
    second.synchronize()
    assert second.query() and 99 <= first.elapsed_time(second) < 1000


def test_two_devices_have_names_and_queues_of_their_own(late):
    assert torch.accelerator.current_accelerator().type == "late" and torch.accelerator.device_count() == 2
    assert torch.get_device_module("late").get_device_properties(1).uuid != late.get_device_properties(0).uuid
    late.sleep(0.5, "late:0")
    start = time.monotonic()
    assert torch.full((2,), 3.0, device="late:1").sum().item() == 6
    assert time.monotonic() - start < 0.4
    late.synchronize("late:0")


def test_a_copy_between_devices_keeps_the_order_of_both(late):
    x = torch.zeros(4, device="late:0")
    late.sleep(0.1, "late:0")
    x.add_(1)
    y = x.to("late:1")
    x.add_(1)
    assert y.cpu().tolist() == [1] * 4 and x.cpu().tolist() == [2] * 4


def test_a_number_of_the_host_is_read_when_it_is_launched(late):
    x, number = torch.zeros(4, device="late"), torch.tensor(1.0)
    late.sleep(0.1)
    y = x + number
    number.fill_(5)
    assert y.cpu().tolist() == [1] * 4


def test_a_result_whose_size_depends_on_data_waits_for_it(late):
    x = torch.tensor([0.0, 1.0, 2.0], device="late")
    assert x[x > 0].cpu().tolist() == [1, 2] and torch.nonzero(x).cpu().tolist() == [[1], [2]]


def test_convolutions_and_attention_run_on_it(late):
    layer, x = torch.nn.Conv2d(3, 4, 3), torch.randn(2, 3, 8, 8)
    mine = copy.deepcopy(layer).to("late")
    layer(x).square().sum().backward()
    mine(x.to("late")).square().sum().backward()
    torch.testing.assert_close(mine.weight.grad.cpu(), layer.weight.grad)
    torch.testing.assert_close(mine.bias.grad.cpu(), layer.bias.grad)
    block = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    y = torch.randn(2, 5, 8)
    torch.testing.assert_close(copy.deepcopy(block).to("late")(y.to("late")).cpu(), block(y))


def test_an_operator_is_seen_once_by_who_watches_the_dispatcher(late):
    from mfu import _observer

    _observer.start(region_folder="")
    before = _observer.totals()
    x = torch.ones(16, 8, device="late", requires_grad=True)
    (x @ torch.ones(8, 4, device="late")).sum().backward()
    late.synchronize()
    counted = _observer.totals() - before
    _observer.stop()
    # 2·16·8·4 forward; the gradient of x is [16, 4] × [4, 8], which costs the same again
    assert (counted.hardware_flop, counted.calls) == (2 * 16 * 8 * 4 * 2, 2)
