"""Says where the time of a profiler trace went: mfu.explain."""

import os
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _core, _engines
from .__main__ import binary
from ._answers import Answer, parse
from ._errors import Error, InvalidArgument, exception_of, file_error

PathLike = Union[str, "os.PathLike[str]"]
Columns = Dict[str, List[Any]]


class Explanation(Answer):
    """The answer of `mfu explain --json` (mfu.explain/1), with its tables as columns:
    pandas.DataFrame(explanation.operators).

    Every table begins with `rank` and `device_id`. Times are whole nanoseconds; an unknown value is None.
    """

    ranks: List[Answer]
    summary: Answer
    partial: bool
    notes: List[str]

    @property
    def mfu(self) -> "float | None":
        """The MFU of all ranks together. None if no matmul has known FLOPs or if no peak is known."""
        return self["summary"]["mfu"]  # type: ignore[no-any-return]

    @property
    def findings(self) -> List[Answer]:
        """What to change, with the largest gain first. Empty if nothing stands out."""
        return self["summary"]["findings"]  # type: ignore[no-any-return]

    @property
    def ledger(self) -> Columns:
        """One row for each line and rank: line, duration_ns, fraction. The lines of a rank add up to its window
        exactly."""
        return self._table("ledger")

    @property
    def operators(self) -> Columns:
        """One row for each operator with one set of shapes: calls, flop, bytes, duration_ns, flop_per_s, peak_fraction,
        code."""
        return self._table("operators")

    @property
    def kernels(self) -> Columns:
        """One row for each name of a kernel: kind, calls, duration_ns."""
        return self._table("kernels")

    @property
    def idle(self) -> Columns:
        """One row for each cause of idle time and what the host was doing: line, what, code, gaps, duration_ns."""
        return self._table("idle")

    @property
    def gaps(self) -> Columns:
        """The longest times in which nothing ran on the device, with their causes."""
        return self._table("gaps")

    @property
    def steps(self) -> Columns:
        """One row for each step: number, start_ns, end_ns, model_flop, and each line of its ledger."""
        return self._table("steps", spread="ledger")

    def _table(self, name: str, spread: str = "") -> Columns:
        rows = []
        for rank in self["ranks"]:
            for row in rank[name]:
                flat = {"rank": rank["rank"], "device_id": rank["device"]["id"], **row}
                flat.update(flat.pop(spread, {}))
                rows.append(flat)
        names = dict.fromkeys(key for row in rows for key in row)
        return {key: [row.get(key) for row in rows] for key in names}


def explain(
    trace: Union[PathLike, Sequence[PathLike]],
    *,
    window: str = "",
    device: str = "",
    dtype: str = "",
    peak: Optional[float] = None,
    catalog: Optional[PathLike] = None,
    html: Optional[PathLike] = None,
    engine: str = "",
) -> Explanation:
    """Explains traces of torch.profiler: a file (.json, .json.gz, .json.zst), a part (.mfu-part), a folder, or a list
    of these. An address of an object store (s3://…) is read through fsspec.

    window    "all", "steps" (the default if the trace marks steps) or "FROM:TO"
    device    the device whose peak counts, if the trace does not name it
    dtype     the type in which matmuls ran, if the trace does not show it
    peak      of one device in FLOP/s; wins over device
    catalog   a CSV of your own devices
    html      also writes the page to this file
    engine    where traces are read: "ray" or "ray=ADDRESS" for nodes of Ray that have the files; "" or "local": here
    """
    paths = [os.fspath(trace)] if isinstance(trace, (str, os.PathLike)) else [os.fspath(path) for path in trace]
    if not paths:
        raise InvalidArgument("trace: at least one file or folder was expected")
    if "-" in paths:
        raise InvalidArgument("trace: '-' is for the command line; write the trace to a file first")
    with tempfile.TemporaryDirectory(prefix="mfu-parts-") as folder:
        try:
            if engine or any(_engines.is_remote(path) for path in paths):
                paths = _engines.gather(engine, paths, window, os.fspath(binary()), folder)
            told, page = _core.explain(
                paths,
                window,
                device,
                dtype,
                None if peak is None else float(peak),
                os.fspath(catalog or ""),
                html is not None,
            )
        except _engines.EngineError as error:
            raise file_error(exception_of(error.code, _core.in_voice(error.message))) from None
        except Error as error:
            raise file_error(error) from None
    if html is not None:
        with open(html, "w", encoding="utf-8") as file:
            file.write(page)
    found: Explanation = parse(told, Explanation)
    return found
