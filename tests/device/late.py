"""A device for the tests that runs late, as a GPU does: `late:0`, `late:1`, … of the PrivateUse1 backend.

    import late               # in a program or a test; tests/device on sys.path. Compiles at first use.
    x = torch.randn(64, 64, device="late")
    y = x @ x                 # returns at once; the CPU's kernel runs later on the stream's own thread
    late.sleep(0.1)           # the stream is busy for 100 ms, the host is not
    y.cpu()                   # waits

Memory, streams, events with elapsed time, copies between devices, `torch.accelerator`, `torch.Event`, autograd's
device threads work as on a GPU. Kernels are called past the dispatcher: whoever watches it sees each operator once,
on the device.

Settings, in the environment before the import:
    LATE_DEVICES=2            how many there are
    LATE_NAMES="A,B"          what each says it is; the last name serves the rest ("Late Test Device")
    LATE_KERNEL_US=0          how long a kernel takes at least; late.set_kernel_us() changes it
    LATE_EVENTS=1             0: events without a time
    LATE_QUEUE=1024           launches that may wait before the host does
For tests: late.counts(), late.capturing() (a stand-in for a graph's capture), late.capture_breaks().
"""

import atexit
import contextlib
import ctypes
import fcntl
import hashlib
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import torch

# Before Python 3.12, autograd's device threads would take the interpreter's lock after its end. So torch must not wait
# for them at exit.
os.environ.setdefault("TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT", "0")
HERE = Path(__file__).resolve().parent
SOURCES = ("runtime.cc", "backend.cc", "fallback.cc")
NAME = "late"


def _library():
    """The compiled backend. It is kept under build/, one for each version of the sources and of torch."""
    folder = Path(torch.__file__).parent
    digest = hashlib.sha256(torch.__version__.encode() + str(folder).encode())
    for file in sorted((*HERE.glob("*.cc"), *HERE.glob("*.h"))):
        digest.update(file.read_bytes())
    cache = HERE.parents[1] / "build" / "test-device"
    cache.mkdir(parents=True, exist_ok=True)
    made = cache / f"late-{digest.hexdigest()[:16]}.so"
    with open(cache / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_file():
            _compile(folder, made)
    return made


def _compile(folder, made):
    launcher = os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER", "").split()
    include = folder / "include"
    flags = ["-std=c++20", "-O1", "-fPIC", "-w", f"-I{include}", f"-I{include}/torch/csrc/api/include"]
    flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}")
    compiler = os.environ.get("CXX", "g++")
    objects = []
    for source in SOURCES:
        objects.append(made.with_name(f"{made.stem}-{source}.o"))
        subprocess.run([*launcher, compiler, *flags, "-c", HERE / source, "-o", objects[-1]], check=True)
    partial = made.with_suffix(".partial")
    libraries = [f"-L{folder}/lib", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{folder}/lib"]
    subprocess.run([compiler, "-shared", *objects, "-o", partial, *libraries], check=True)
    for each in objects:
        each.unlink()
    partial.rename(made)


_native = ctypes.CDLL(str(_library()))
_native.late_capture_breaks.restype = ctypes.c_uint64


def _index(device=None):
    if device is None:
        return _native.late_current_device()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return _native.late_current_device() if index is None else index


def device_count():
    return _native.late_device_count()


def get_device_name(device=None):
    names = os.environ.get("LATE_NAMES", "Late Test Device").split(",")
    return names[min(_index(device), len(names) - 1)].strip()


class Properties:
    """As torch.cuda.get_device_properties() gives them."""

    def __init__(self, index):
        self.name = get_device_name(index)
        self.uuid = f"late-0000-{index:04d}"


def get_device_properties(device=None):
    return Properties(_index(device))


def synchronize(device=None):
    _native.late_synchronize(_index(device))


def sleep(seconds, device=None):
    """Keeps the device's current stream busy for that long."""
    _native.late_sleep(_index(device), ctypes.c_uint64(int(seconds * 1e9)))


def set_kernel_us(duration_us):
    _native.late_set_kernel_ns(ctypes.c_uint64(int(duration_us * 1000)))


def counts():
    """Counts of what was asked of the device so far: launches, waits of the host, queries, and queries by a thread that
    launched nothing."""
    four = (ctypes.c_uint64 * 4)()
    _native.late_counts(four)
    return dict(zip(("launches", "host_waits", "foreign_queries", "queries"), four))


@contextlib.contextmanager
def capturing():
    """Inside this block the host may neither wait nor query; capture_breaks() counts how often it did."""
    _native.late_set_capturing(1)
    try:
        yield
    finally:
        _native.late_set_capturing(0)


def capture_breaks():
    return _native.late_capture_breaks()


def _module():
    module = types.ModuleType(f"torch.{NAME}")
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = module.manual_seed = lambda seed: None
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.current_device = lambda: _native.late_current_device()
    module.set_device = lambda device: _native.late_set_device(_index(device))
    module.device_count = device_count
    module.get_device_name = get_device_name
    module.get_device_properties = get_device_properties
    module.synchronize = synchronize
    module.Event = lambda **options: torch.Event(NAME, **options)
    module.current_stream = lambda device=None: torch.accelerator.current_stream(torch.device(NAME, _index(device)))
    return module


def _register():
    _native.late_register_hooks()
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _module())
    torch.utils.generate_methods_for_privateuse1_backend()
    atexit.register(_native.late_stop)
    # A thread of autograd that is still working would be ended in the middle of its work.
    atexit.register(time.sleep, 0.1)


if getattr(torch, NAME, None) is None:
    _register()
    sys.modules.setdefault("late", sys.modules[__name__])
