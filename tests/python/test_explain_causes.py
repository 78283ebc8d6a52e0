"""Every cause that a CPU cannot show, drawn as a profiler would record it: a device that runs behind its host, and one
thing that is wrong in each step. The first finding names it, and a fair step gets no advice."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
MFU = os.environ.get("MFU_COMMAND", str(ROOT / "build" / "release" / "mfu"))
SIDE = 4096
FLOP = 2 * SIDE**3
A100_BF16, A100_FP32 = 312e12, 19.5e12


class Drawn:
    """Builds a trace; times are in microseconds. The host runs ahead, and the device begins a kernel when it is
    free."""

    def __init__(self):
        self.host = self.device = 0.0
        self.correlation = 0
        self.events = []

    def add(self, kind, name, start, duration, thread=(100, 1), **args):
        process, lane = thread
        self.events.append(
            {
                "ph": "X",
                "cat": kind,
                "name": name,
                "pid": process,
                "tid": lane,
                "ts": start,
                "dur": duration,
                **({"args": args} if args else {}),
            }
        )

    def launch(self, call, kind, name, duration, stream=7):
        self.correlation += 1
        self.add("cuda_runtime", call, self.host + 2, 4, correlation=self.correlation)
        start = max(self.device, self.host + 8)
        self.add(kind, name, start, duration, (0, stream), device=0, stream=stream, correlation=self.correlation)
        self.device = start + duration

    def operator(self, name, kernel, duration, dims=((64, 64),), dtype="c10::BFloat16", host=10.0):
        self.launch("cudaLaunchKernel", "kernel", kernel, duration)
        self.add(
            "cpu_op",
            name,
            self.host,
            host,
            **{"Input Dims": [list(each) for each in dims], "Input type": [dtype] * len(dims)},
        )
        self.host += host

    def matmul(
        self,
        reached=0.85,
        peak=A100_BF16,
        dtype="c10::BFloat16",
        kernel="ampere_bf16_s16816gemm_bf16_128x128",
        side=SIDE,
    ):
        seconds = 2 * side**3 / peak / reached
        self.operator("aten::mm", kernel, 1e6 * seconds, ((side, side), (side, side)), dtype)

    def range(self, name, duration, kind="user_annotation"):
        self.add(kind, name, self.host, duration)
        self.host += duration

    def read_value(self):
        start = self.host
        self.launch("cudaMemcpyAsync", "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 2)
        wait = self.device - (self.host + 7)
        self.add("cuda_runtime", "cudaStreamSynchronize", self.host + 7, wait, correlation=10**6 + self.correlation)
        self.host = self.device + 3
        self.add("cpu_op", "aten::item", start, self.host - start)

    def copy(self, name, duration):
        self.launch("cudaMemcpyAsync", "gpu_memcpy", name, duration, stream=7)
        self.add("cpu_op", "aten::copy_", self.host, 10)
        self.host += 10


def fair(drawn):
    for _ in range(10):
        drawn.matmul()


def slow_loader(drawn):
    drawn.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 20000)
    fair(drawn)


def preprocessing(drawn):
    drawn.range("aten::sort", 20000, "cpu_op")
    fair(drawn)


def launches(drawn):
    for _ in range(900):
        drawn.operator("aten::mul", "void at::native::vectorized_elementwise_kernel<4, at::native::mul>(int)", 3)
    drawn.matmul()


def values_read(drawn):
    for _ in range(10):
        drawn.matmul()
        drawn.read_value()
        for _ in range(40):  # the loop's work with each value
            drawn.range("aten::add", 8, "cpu_op")


def network(drawn):
    fair(drawn)
    drawn.operator(
        "c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 5000
    )


def pageable(drawn):
    drawn.copy("Memcpy HtoD (Pageable -> Device)", 5000)
    fair(drawn)


def pinned(drawn):
    drawn.copy("Memcpy HtoD (Pinned -> Device)", 5000)
    fair(drawn)


def within(drawn):
    drawn.copy("Memcpy DtoD (Device -> Device)", 5000)
    fair(drawn)


def wide_type(drawn):
    for _ in range(4):
        drawn.matmul(0.9, A100_FP32, "float", "ampere_sgemm_128x128_nn")


def element_wise(drawn):
    fair(drawn)
    for _ in range(10):
        drawn.operator(
            "aten::gelu", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluFunctor>(int)", 800
        )


def poor_matmuls(drawn):
    for _ in range(10):
        drawn.matmul(0.2, side=4095)


def explained(tmp_path, step):
    drawn = Drawn()
    for number in range(3):
        start, place = drawn.host, len(drawn.events)
        step(drawn)
        drawn.events.insert(
            place,
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{number}",
                "pid": 100,
                "tid": 1,
                "ts": start,
                "dur": drawn.host - start,
            },
        )
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}],
        "traceEvents": drawn.events,
    }
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    done = subprocess.run([MFU, "explain", str(path), "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "step, code, cause, fix",
    [
        (slow_loader, "data_loading", "data_loading", "start_workers"),
        (preprocessing, "cpu_operators", "cpu_preprocessing", "preprocess_offline"),
        (launches, "kernel_launch", "kernel_launch", "launch_less"),
        (values_read, "synchronization", "synchronization", "read_device_less"),
        (network, "communication", "communication", "overlap_communication"),
        (pageable, "copies", "copies", "pin_memory"),
        (pinned, "copies", "copies", "prefetch_batch"),
        (within, "copies", "copies", "fewer_device_copies"),
        (wide_type, "precision", "precision", "use_bf16"),
        (element_wise, "other_kernels", "implementation", "compile_fuses"),
        (poor_matmuls, "matmul_below_peak", "implementation", "even_shapes"),
    ],
    ids=lambda each: getattr(each, "__name__", None) or str(each),
)
def test_what_a_device_waits_for_is_named_first(tmp_path, step, code, cause, fix):
    first = explained(tmp_path, step)["summary"]["findings"][0]
    assert (first["code"], first["cause"]) == (code, cause) and fix in first["fixes"], first


def test_a_fair_step_gets_no_advice(tmp_path):
    report = explained(tmp_path, fair)
    assert report["summary"]["mfu"] > 0.8 and report["summary"]["findings"] == []
