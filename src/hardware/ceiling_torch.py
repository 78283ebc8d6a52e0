"""Measures matrix multiplies with PyTorch on every device it has. Writes one JSON object per line to standard output.

`mfu peak --measure` runs it as `python - SECONDS [DTYPE…]`. It installs nothing and writes no file.
"""

import json
import sys
import time


def say(**line):
    print(json.dumps(line), flush=True)


def devices(torch):
    for name in ("cuda", "xpu", "mps"):
        backend = getattr(torch, name, None) or getattr(torch.backends, name, None)
        if backend is None or not backend.is_available():
            continue
        count = backend.device_count() if hasattr(backend, "device_count") else 1
        for index in range(count):
            label = backend.get_device_name(index) if hasattr(backend, "get_device_name") else name
            yield torch.device(name, index), label
    yield torch.device("cpu"), "cpu"


def synchronize(torch, device):
    module = getattr(torch, device.type, None)
    if device.type != "cpu" and hasattr(module, "synchronize"):
        module.synchronize()


def multiply(torch, dtype, device, m, n, k):
    """Returns a function that multiplies once. Raises an exception if this device or build cannot do that."""
    if dtype == "int8":
        a = torch.randint(-3, 3, (m, k), dtype=torch.int8, device=device)
        b = torch.randint(-3, 3, (k, n), dtype=torch.int8, device=device)
        return lambda: torch._int_mm(a, b)
    if dtype == "fp8":
        a = torch.randn(m, k, device=device).to(torch.float8_e4m3fn)
        b = torch.randn(n, k, device=device).to(torch.float8_e4m3fn).t()
        one = torch.ones((), device=device)
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    kind = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32,
            "fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    a = torch.randn(m, k, device=device).to(kind)
    b = torch.randn(k, n, device=device).to(kind)
    out = torch.empty(m, n, device=device, dtype=kind)
    return lambda: torch.mm(a, b, out=out)


def once(torch, device, function):
    synchronize(torch, device)
    start = time.perf_counter()
    function()
    synchronize(torch, device)
    return time.perf_counter() - start


def measure(torch, dtype, device, seconds):
    sizes = (512, 768, 1024, 1536) if device.type == "cpu" else (2048, 4096, 8192, 16384)
    tried = {}
    deadline = time.perf_counter() + seconds
    for size in sizes:
        function = multiply(torch, dtype, device, size, size, size)
        once(torch, device, function)
        tried[size] = [2 * size**3 / once(torch, device, function) for _ in range(3)]
        if time.perf_counter() > deadline:
            break
    best = max(tried, key=lambda size: max(tried[size]))
    function = multiply(torch, dtype, device, best, best, best)
    once(torch, device, function)
    while time.perf_counter() < deadline:
        tried[best].append(2 * best**3 / once(torch, device, function))
    return best, sorted(tried[best])


def main():
    try:
        import torch
    except ImportError:
        say(problem="this Python has no PyTorch")
        return
    seconds = float(sys.argv[1])
    wanted = sys.argv[2:]
    plan = []
    for device, label in devices(torch):
        dtypes = (
            ("fp64", "fp32", "bf16")
            if device.type == "cpu"
            else ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
        )
        plan += [(device, label, dtype) for dtype in dtypes if not wanted or dtype in wanted]
    for done, (device, label, dtype) in enumerate(plan):
        say(progress=done / len(plan), what=f"PyTorch {torch.__version__}, {dtype} on {device}")
        try:
            size, rates = measure(torch, dtype, device, seconds / len(plan))
        except Exception as problem:  # this build or device cannot; report it and try the next one
            say(device=label, at=str(device), dtype=dtype, why_not=str(problem).splitlines()[0][:160])
            continue
        say(device=label, at=str(device), dtype=dtype, version=torch.__version__, runs=len(rates),
            best=rates[-1], median=rates[len(rates) // 2],
            p10=rates[len(rates) // 10], p90=rates[len(rates) * 9 // 10], shape=f"m={size} n={size} k={size}")


main()
