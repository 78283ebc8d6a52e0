"""Writes traces of a made-up job, one per rank.

    python3 bench/make_ranks.py FOLDER --ranks 64 [--steps 3 --layers 24 --first 0]

All ranks train the same layers (matmuls with shapes, element-wise kernels, one all-reduce per layer on another stream).
Each has its own clock and is a little faster or slower than the others; one in sixteen is late. The same arguments give
the same files, whichever part of the ranks is written."""

import argparse
import json
import random
from pathlib import Path

KERNELS = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(int)",
    "void (anonymous namespace)::softmax_warp_forward<float, float, 10>(float*)",
]


class Rank:
    def __init__(self, rank, world, group):
        self.random = random.Random(rank)
        self.rank, self.world, self.group = rank, world, group
        self.clock = self.random.randrange(0, 5_000_000)  # µs; every node has its own
        self.late = 1.15 if rank % 16 == 5 else 1.0
        self.events = []
        self.ids = 0

    def event(self, category, name, thread, start, duration, process=100, **arguments):
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": process,
                "tid": thread,
                "ts": round(start + self.clock, 3),
                "dur": round(duration, 3),
                "args": arguments,
            }
        )

    def launch(self, host, operator, kernel, start, duration, stream=7, **arguments):
        """Writes one operator, its launch and its kernel. Returns the time at which the host is done."""
        self.ids += 1
        inputs = arguments.pop("inputs", None)
        shapes = {} if inputs is None else {"Input Dims": inputs, "Input type": ["c10::BFloat16"] * len(inputs)}
        self.event("cpu_op", operator, 1, host, 9, **{"External id": self.ids}, **shapes)
        if arguments:
            self.event("cpu_op", "record_param_comms", 1, host + 1, 7, **arguments)
        self.event(
            "cuda_runtime", "cudaLaunchKernel", 1, host + 3, 4, correlation=self.ids, **{"External id": self.ids}
        )
        self.event(
            "kernel",
            kernel,
            stream,
            start,
            duration,
            process=0,
            device=0,
            stream=stream,
            correlation=self.ids,
            grid=[128, 1, 1],
            block=[256, 1, 1],
            **{"External id": self.ids, "registers per thread": 128},
        )
        return host + 10

    def step(self, number, begin, layers):
        host, device, collective = begin, begin + 30, begin + 30
        for layer in range(layers):
            width = 2048 if layer % 2 else 4096
            for operator, kernel, inputs, length in [
                ("aten::mm", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn", [[4096, 2048], [2048, width]], 170),
                ("aten::add", KERNELS[layer % 3], None, 21),
            ]:
                length *= self.late * self.random.uniform(0.97, 1.06)
                device = max(device, host + 12)
                host = self.launch(host, operator, kernel, device, length, **({"inputs": inputs} if inputs else {}))
                device += length + self.random.uniform(1, 3)
            ranks = self.world if layer % 4 else self.group
            name = "0" if layer % 4 else f"tensor{self.rank // self.group}"
            collective = max(collective, device)
            # All ranks end the collective together, so the rank that comes last waits least.
            end = begin + (layer + 1) * 260
            length = max(4.0, end - collective)
            host = self.launch(
                host,
                "c10d::allreduce_",
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclArgs)",
                collective,
                length,
                stream=20,
                **{
                    "Collective name": "allreduce",
                    "Process Group Name": name,
                    "In msg nelems": 4096 * (layer + 1),
                    "Out msg nelems": 4096,
                    "Group size": ranks,
                    "dtype": "BFloat16",
                },
            )
            collective += length + 1
        end = max(host, device, collective) + 40
        self.event("user_annotation", f"ProfilerStep#{number}", 1, begin, end - begin - 1)
        return end

    def trace(self, steps, layers):
        at = 1000.0
        for number in range(steps):
            at = self.step(number, at, layers)
        return {
            "schemaVersion": 1,
            "deviceProperties": [
                {
                    "id": 0,
                    "name": "NVIDIA A100-SXM4-80GB",
                    "totalGlobalMem": 84974239744,
                    "computeMajor": 8,
                    "computeMinor": 0,
                    "numSms": 108,
                }
            ],
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.world},
            "traceEvents": self.events,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=8, help="of the whole job")
    parser.add_argument("--first", type=int, default=0, help="first rank to write")
    parser.add_argument("--count", type=int, help="how many to write (default: the rest)")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--layers", type=int, default=24)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    last = asked.ranks if asked.count is None else min(asked.ranks, asked.first + asked.count)
    for rank in range(asked.first, last):
        text = json.dumps(Rank(rank, asked.ranks, 8).trace(asked.steps, asked.layers))
        (asked.folder / f"rank-{rank}.json").write_text(text)


if __name__ == "__main__":
    main()
