"""What hardware could do, and where peak, need and time meet: mfu.peak, mfu.machine, mfu.utilization, mfu.plan."""

import warnings
from typing import List, Optional, Sequence, Union

from . import _core
from ._answers import DeviceAnswer, PeakAnswer, PlanAnswer, UtilizationAnswer, parse
from ._errors import InvalidArgument
from ._need import ModelLike, _model, flops


def _devices(text: str) -> PeakAnswer:
    answer: PeakAnswer = parse(text, PeakAnswer)
    answer["devices"] = [DeviceAnswer(each) for each in answer["devices"]]
    return answer


def devices(name: str = "", *, catalog: str = "") -> List[DeviceAnswer]:
    """Every device of the catalogue that matches the name ("h100": all its variants). Without a name, all devices."""
    return _devices(_core.devices(name, catalog)).devices


def peak(name: str, *, catalog: str = "") -> DeviceAnswer:
    """The device of that name, written as its driver prints it: peak("NVIDIA H100 80GB HBM3")["bf16"].flop_per_s.

    Raises NotFound with the nearest names if nothing matches, and InvalidArgument with the candidates if several do.
    Nothing is guessed. `catalog` is a CSV of your own devices (docs/formats/catalog.md).
    """
    if not name.strip():
        raise InvalidArgument("name a device as its driver prints it; mfu.machine() has this machine's")
    found = devices(name, catalog=catalog)
    if len(found) > 1:
        raise InvalidArgument(f"{name!r} fits several devices: {', '.join(each.name for each in found)}")
    return found[0]


def machine(*, catalog: str = "") -> PeakAnswer:
    """The devices of this machine: accelerators by their drivers, then the processor, each with its measured ceiling
    if there is one."""
    text, told = _core.machine(catalog)
    for line in told:
        warnings.warn(line, RuntimeWarning, stacklevel=2)
    return _devices(text)


def utilization(
    model_flop: int,
    seconds: float,
    *,
    device: Optional[str] = None,
    dtype: str = "bf16",
    peak: Optional[float] = None,
    devices: int = 1,
    hardware_flop: Optional[int] = None,
    moved_bytes: Optional[int] = None,
    catalog: str = "",
) -> UtilizationAnswer:
    """MFU (and HFU, MBU) of work done in a time: utilization(counted.model_flop, 1.27, device="NVIDIA H100 80GB
    HBM3").mfu.

    The FLOPs are those of the whole job; the peak is that of one device. A value above 1 is not clamped:
    `contradictions` names the likely cause.
    """
    try:
        against = _core.PeakAsked(device, dtype, peak, catalog)
        found = _core.utilization(model_flop, seconds, against, hardware_flop, moved_bytes, devices)
    except TypeError:
        raise InvalidArgument(
            f"model_flop={model_flop!r}, seconds={seconds!r}, devices={devices!r}: whole counts and a time were"
            " expected"
        ) from None
    return UtilizationAnswer(found)


def plan(
    model: Optional[ModelLike] = None,
    *,
    tokens: Optional[float] = None,
    flop: Optional[float] = None,
    mfu: float = 0.4,
    seq: int = 2048,
    device: Optional[str] = None,
    dtype: str = "bf16",
    peak: Optional[float] = None,
    devices: Union[int, Sequence[int]] = 1,
    price: Optional[float] = None,
    watts: Optional[float] = None,
    bytes_per_parameter: float = 16,
    catalog: str = "",
) -> PlanAnswer:
    """Devices, days and cost of a training run: plan("config.json", tokens=15e12, device="NVIDIA H100 80GB HBM3",
    devices=[512, 1024]).

    `flop` is the whole work, instead of a model and tokens. `mfu` is the MFU to expect, and `price` that of a
    device-hour.
    """
    if (flop is None) == (model is None or tokens is None):
        raise InvalidArgument("say what to train: a model with tokens, or the FLOPs with flop=")
    assumptions = []
    parameters = 0
    if flop is not None:
        total = _whole(flop, "flop")
    else:
        known = _model(model)
        amount = _whole(tokens, "tokens")
        need = flops(known, seq=seq)
        total = (need.model_flop or 0) * amount // need.tokens
        parameters = known.parameters["total"]
        assumptions.append(f"train of {amount} tokens in sequences of {seq}, counted by exact")
    counts = [devices] if isinstance(devices, int) else list(devices)
    against = _core.PeakAsked(device, dtype, peak, catalog)
    answer: PlanAnswer = parse(_core.plan(total, mfu, against, counts, price, watts, parameters, bytes_per_parameter,
                                          assumptions), PlanAnswer)
    return answer


def _whole(amount: "float | None", name: str) -> int:
    if amount is None or not 1 <= amount < 2**128:
        raise InvalidArgument(f"{name}={amount!r}: a number from 1 to 2^128 was expected")
    return int(amount)
