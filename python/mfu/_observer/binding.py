"""Finds libmfu_torch.so, checks that it fits the torch of this process, and declares its functions for ctypes.

include/mfu/observer.h describes the functions. The quick ones keep the interpreter's lock (PyDLL), which is faster and
never waits.
"""

import ctypes
import os
import re
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path

ABI = 7
NAME = "libmfu_torch.so"
SHIMS = "libmfu_shims.so"


FLOP = "hardware_flop_low hardware_flop_high model_flop_low model_flop_high recomputed_flop_low recomputed_flop_high"
THREAD_STATE = 194


def fields(kind, names):
    return [(name, kind) for name in names.split()]


class Totals(Structure):
    _fields_ = fields(c_uint64, f"{FLOP} calls uncounted_calls tokens token_rows samples steps")


class Row(Structure):
    _fields_ = fields(c_char_p, "name type reason") + fields(c_uint64, f"calls {FLOP} bytes")


class Phase(Structure):
    _fields_ = fields(c_char_p, "phase model") + fields(
        c_uint64,
        "model_number passes tokens padded_tokens samples time_ns"
        " model_flop_low model_flop_high hardware_flop_low hardware_flop_high"
        " weight_read_bytes cache_read_bytes cache_written_bytes",
    )


class Thread(Structure):
    _fields_ = fields(c_uint64, "hardware_flop model_flop recomputed_flop calls")


class Change(Structure):
    _fields_ = fields(c_uint64, "operator_id hardware_flop")


class GraphRow(Structure):
    _fields_ = (
        fields(c_uint32, "operator_id type_id")
        + fields(c_uint64, "calls hardware_flop model_flop recomputed_flop")
        + fields(c_int64, "leading device")
    )


class Argument(Structure):
    _fields_ = [("kind", c_int), ("type", c_char_p), ("integers", POINTER(c_int64)), ("integers_count", c_size_t),
                ("number", c_double)]


class Cost(Structure):
    _fields_ = fields(c_uint64, "hardware_flop model_flop") + fields(c_char_p, "name type reason")


# Called from inside an operator that has released the interpreter's lock. ctypes takes it again.
MODEL_SEEN = ctypes.CFUNCTYPE(None, c_uint32)
OWNER_ASKED = ctypes.CFUNCTYPE(c_int, c_uint32, c_uint64)
SAME_CALL = ctypes.CFUNCTYPE(c_int)
WINDOW_SEEN = ctypes.CFUNCTYPE(None, c_int)
DEVICE_SEEN = ctypes.CFUNCTYPE(None, c_char_p)
FORMULA_CALL = ctypes.CFUNCTYPE(c_int64, c_char_p, POINTER(Argument), c_size_t, POINTER(Argument))

SIGNATURES = {
    "abi": (c_int, []),
    "torch": (c_char_p, []),
    "start": (c_int, [c_char_p, c_char_p]),
    "stop": (None, []),
    "active": (c_int, []),
    "counting": (c_int, []),
    "problem": (c_char_p, []),
    "read_totals": (None, [POINTER(Totals)]),
    "read_rows": (c_size_t, [POINTER(Row), c_size_t]),
    "read_thread": (None, [POINTER(Thread)]),
    "read_phases": (c_size_t, [c_int, POINTER(Phase), c_size_t]),
    "thread_changes": (c_size_t, [POINTER(c_uint64), POINTER(Change), c_size_t]),
    "operator_name": (c_char_p, [c_uint32]),
    "goodbye": (None, []),
    "last_step": (None, []),
    "pause": (None, [c_int]),
    "recompute": (None, [c_int]),
    "function": (None, [c_int]),
    "models": (None, [MODEL_SEEN]),
    "calls": (None, [SAME_CALL]),
    "name_model": (None, [c_uint32, c_char_p, c_int]),
    "devices": (None, [DEVICE_SEEN]),
    "name_device": (None, [c_char_p, c_char_p]),
    "owners": (None, [OWNER_ASKED]),
    "join_models": (None, [c_uint32, c_uint32]),
    "split_model": (c_uint32, [c_uint32]),
    "create_graph": (None, [c_int]),
    "accumulate": (None, [c_int]),
    "add": (None, [c_char_p, c_char_p, c_uint64, c_uint64, c_uint64]),
    "add_uncounted": (None, [c_char_p, c_char_p]),
    "count": (None, [c_uint32, c_uint32, c_uint64, c_uint64, c_int64, c_int64, c_uint64]),
    "may_ask": (c_int, [c_int64]),
    "settle_lengths": (None, []),
    "runs_again": (c_int, []),
    "watch_writes": (None, [c_int]),
    "writer_of": (c_int, [c_uint64]),
    "is_outside": (c_int, [c_uint64]),
    "capture_begin": (None, [c_int]),
    "capture_end": (c_size_t, [c_void_p, c_size_t]),
    "replay": (None, [c_void_p, c_size_t]),
    "refresh": (None, []),
    "formula": (c_char_p, [c_char_p] * 4),
    "formula_by": (c_char_p, [c_char_p, c_char_p, FORMULA_CALL]),
    "add_lookup": (None, [c_uint64] * 5),
    "optimizer_step": (c_int, [c_int]),
    "mark_step": (None, [c_int64]),
    "optimizer_made": (None, []),
    "add_checkpoint_ns": (None, [c_uint64]),
    "saving": (None, [c_int]),
    "fact": (None, [c_char_p, c_char_p]),
    "set_rank": (None, [c_int32, c_int32, c_int32]),
    "operator_id": (c_uint32, [c_char_p]),
    "type_id": (c_uint32, [c_char_p]),
    "open_operator": (c_int, [c_char_p]),
    "enter_graph": (None, [c_void_p, c_size_t, c_int]),
    "leave_graph": (None, [c_void_p, c_size_t]),
    "explain": (None, [c_char_p, c_char_p]),
    "windows": (None, [WINDOW_SEEN]),
    "other_profiler": (None, []),
    "end_window": (None, [c_int]),
    "stopping": (c_int, []),
    "cost_of": (c_int, [c_char_p, POINTER(Argument), c_size_t, POINTER(Cost)]),
}
# Functions that may wait for a lock of torch or run for long.
PATIENT = {
    "start",
    "stop",
    "open_operator",
    "read_totals",
    "read_rows",
    "read_phases",
    "end_window",
    "other_profiler",
    "settle_lengths",
}


class LibraryError(Exception):
    """Says why nothing is counted and what to do."""


class Library:
    """The functions of observer.h without their prefix."""

    def __init__(self, path, torch_version, built_for_it=False):
        self.path = Path(path)
        try:
            patient, quick = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
            for name, (result, arguments) in SIGNATURES.items():
                function = getattr(patient if name in PATIENT else quick, f"mfu_observer_{name}")
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)
        except (OSError, AttributeError) as error:
            raise LibraryError(f"{path} does not load into this torch ({torch_version}): {error}") from None
        if self.abi() != ABI:
            raise LibraryError(f"{path} has ABI {self.abi()}, this mfu needs {ABI}: remove it, it will be built again")
        # A library that was compiled for this torch only knows what its headers say: 2.8.0 for
        # 2.8.0a0+5228986c39.nv25.06. The self-check tells whether it fits.
        same = numbers if built_for_it else minor
        if same(self.torch().decode()) != same(str(torch_version)):
            raise LibraryError(f"{path} is for torch {self.torch().decode()}, this is {torch_version}")
        self._quick = quick

    def watch_shims(self, torch_folder):
        """Watches functions of libtorch_cpu that generated C++ calls past the dispatcher. Ours are loaded globally, so
        that they are found before torch's, and from a library of their own, so that nothing else becomes global."""
        torch_cpu = ctypes.CDLL(str(torch_folder / "lib" / "libtorch_cpu.so"))
        beside, shared = (
            self.path.with_name(SHIMS),
            self.path.parent.parent / SHIMS,
        )  # a wheel has one for all its observers
        shims = ctypes.PyDLL(str(beside if beside.is_file() else shared), mode=ctypes.RTLD_GLOBAL)
        done, pause = (
            ctypes.cast(getattr(self._quick, f"mfu_observer_{name}"), c_void_p) for name in ("shim_done", "pause")
        )
        shims.mfu_shims_connect.argtypes = [c_void_p] * 3
        shims.mfu_shims_connect(torch_cpu._handle, done, pause)


def minor(version):
    """(2, 8) for 2.8.1+cu128. None if it is not a version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found and (int(found.group(1)), int(found.group(2)))


def numbers(version):
    """(2, 8, 1) for 2.8.1+cu128 and for 2.8.1a0+gitabc. None if it is not a version."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return found and tuple(int(part or 0) for part in found.groups())


def is_release(version):
    """Whether it is a release: 2.8.0, 2.8.1+cu128, 2.6.0+debian. The others may differ from the release of that number,
    so a library is compiled for them: a vendor's build (2.8.0a0+5228986c39.nv25.06), a nightly, a candidate, conda's
    2.8.0.post301, a build from source."""
    return (
        re.fullmatch(
            r"\d+\.\d+(\.\d+)?(\+(cpu|cu\d+|rocm[\d.]+|xpu|debian)(\.cxx11\.abi|\.with\.pypi\.cudnn)?)?", version
        )
        is not None
    )


def serves(mark, version, abi):
    """Whether a library marked `2.8.0 abi1` is for that torch. Releases of one minor version share their C++ ABI. For
    anything else, only a library of the very same build is known to fit."""
    built, _, built_abi = mark.strip().partition(" ")
    if built_abi != f"abi{abi}":
        return False
    return built == version or (is_release(built) and is_release(version) and minor(built) == minor(version))


def prebuilt(version, abi):
    """The libraries for that torch that came with the package or were built next to the checkout. A file next to each
    says for which torch it is."""
    here = Path(__file__).resolve().parent
    for path in (*sorted(here.glob(f"lib/*/{NAME}")), here.parent.parent.parent / "build" / "release" / "torch" / NAME):
        mark = path.with_suffix(".torch")
        if path.is_file() and mark.is_file() and serves(mark.read_text(), version, abi):
            yield path


def load(torch, may_build=True):
    """The library for this torch module. Raises LibraryError with a sentence for the user."""
    explicit = os.environ.get("MFU_OBSERVER_LIBRARY")
    if explicit:
        return Library(explicit, torch.__version__)
    for path in prebuilt(str(torch.__version__), int(torch._C._GLIBCXX_USE_CXX11_ABI)):
        try:
            return Library(path, torch.__version__)
        except LibraryError:  # it has another ABI, so one that fits is built
            continue
    from . import build

    folder = Path(torch.__file__).parent
    try:
        if not may_build and not (build.cache_folder(folder) / NAME).is_file():
            raise LibraryError(
                f"the observer is not built for torch {torch.__version__} yet: python -m mfu._observer.build"
            )
        return Library(build.cached(folder), torch.__version__, built_for_it=True)
    except (build.BuildError, OSError) as error:
        raise LibraryError(str(error)) from None
