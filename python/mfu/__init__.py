"""How much of its hardware a model uses, where the rest went, what to change.

    import mfu

    mfu.flops("config.json", batch=8, seq=4096).model_flop     # what a step needs, exactly
    mfu.peak("NVIDIA H100 80GB HBM3")["bf16"].flop_per_s        # what the device could do

    with mfu.count() as counted:                                # what a program really ran
        loss = model(batch).loss
        loss.backward()
    counted.model_flop, counted.by_operator, counted.by_module

    mfu.explain("trace.json.gz").findings                       # where the rest went, and what to change

Importing it takes a few milliseconds. The native library and PyTorch are loaded when they are first used.
docs/python.md describes all of it.
"""

import importlib
from typing import TYPE_CHECKING, Any, List

__version__ = "0.2.0"

# The module of each name. It is loaded at first use, because a process that is only observed never needs the native
# library.
_PLACES = {
    "Error": "_errors",
    "InvalidArgument": "_errors",
    "NotFound": "_errors",
    "Malformed": "_errors",
    "Unsupported": "_errors",
    "FileError": "_errors",
    "FileMissing": "_errors",
    "Model": "_need",
    "flops": "_need",
    "convert": "_need",
    "conventions": "_need",
    "model_types": "_need",
    "peak": "_hardware",
    "machine": "_hardware",
    "devices": "_hardware",
    "utilization": "_hardware",
    "plan": "_hardware",
    "explain": "_explain",
    "Explanation": "_explain",
    "explain_steps": "_explain_steps",
    "ExplainedSteps": "_explain_steps",
    "formula": "_formula",
    "count": "_count",
    "Counted": "_count",
    "Monitor": "_monitor",
    "observe": "_observe",
    "Observation": "_observe",
    "mark_step": "_observe",
}
_MODULES = ("callbacks", "compat")

__all__ = sorted([*_PLACES, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        found = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
        globals()[name] = found
        return found
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted([*globals(), *_PLACES, *_MODULES])


if TYPE_CHECKING:
    from . import callbacks as callbacks, compat as compat
    from ._count import Counted as Counted, count as count
    from ._errors import (
        Error as Error,
        FileError as FileError,
        FileMissing as FileMissing,
        InvalidArgument as InvalidArgument,
        Malformed as Malformed,
        NotFound as NotFound,
        Unsupported as Unsupported,
    )
    from ._explain import Explanation as Explanation, explain as explain
    from ._explain_steps import ExplainedSteps as ExplainedSteps, explain_steps as explain_steps
    from ._hardware import (
        devices as devices,
        machine as machine,
        peak as peak,
        plan as plan,
        utilization as utilization,
    )
    from ._monitor import Monitor as Monitor
    from ._need import (
        Model as Model,
        conventions as conventions,
        convert as convert,
        flops as flops,
        model_types as model_types,
    )
    from ._observe import Observation as Observation, mark_step as mark_step, observe as observe
