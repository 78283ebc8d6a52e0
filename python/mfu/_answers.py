"""The library's answers. The keys of the JSON (docs/formats/) can be read as attributes or as items."""

import json
from typing import Any, Dict, List


class Answer(Dict[str, Any]):
    """A dict whose keys are also attributes: answer.model_flop is answer["model_flop"]. Nested objects are Answers
    too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {', '.join(self)}") from None

    def __dir__(self) -> List[str]:
        return sorted([*super().__dir__(), *self])

    def __reduce__(self) -> Any:
        return (type(self), (dict(self),))


class NeedAnswer(Answer):
    """What a step needs (mfu.flops/1). Counts are Python integers of any size. An unknown value is None, and `notes`
    says why."""

    model: Answer
    input: Answer
    convention: str
    model_flop: "int | None"
    hardware_flop: "int | None"
    flop_per_token: "float | None"
    tokens: int
    flop_by_part: Answer
    conventions: Answer
    bytes: "Answer | None"
    utilization: "Answer | None"
    assumptions: List[str]
    notes: List[str]
    assumption_codes: List[Answer]  # the same as codes with values
    note_codes: List[Answer]


class DeviceAnswer(Answer):
    """A device and its peaks. device["bf16"] is the dense peak that an MFU in bf16 is compared with."""

    device: Answer
    peaks: List[Answer]
    measured: List[Answer]
    notes: List[str]
    note_codes: List[Answer]

    def __missing__(self, key: str) -> Any:
        for row in self["peaks"]:
            if row["dtype"] == key and row["used_for_mfu"]:
                return row
        raise KeyError(key)

    @property
    def name(self) -> str:
        return str(self["device"]["name"])


class PeakAnswer(Answer):
    """Devices (mfu.peak/1)."""

    devices: List[DeviceAnswer]
    notes: List[str]


class UtilizationAnswer(Answer):
    """MFU, HFU and MBU as fractions of 1, with the peak behind them. A value above 1 is a contradiction: see
    `contradictions`."""

    mfu: float
    hfu: "float | None"
    mbu: "float | None"
    flop_per_s: float
    peak_flop_per_s: float
    peak_source: str
    peak_dtype: "str | None"  # the type whose peak it is
    peak_reason: str  # own_unit, wider_unit, tf32_allowed or given
    devices: int
    rating: "str | None"
    contradictions: List[str]


class PlanAnswer(Answer):
    """Devices, days and cost (mfu.plan/1)."""

    total_flop: int
    device: str
    mfu: float
    plans: List[Answer]
    assumptions: List[str]


class ConversionAnswer(Answer):
    """An MFU, converted to another convention (mfu.convert/1)."""

    mfu_from: float
    mfu_to: float
    ratio: float


def parse(text: str, kind: type) -> Any:
    """The JSON text as an answer of that kind."""
    return kind(json.loads(text, object_hook=Answer))
