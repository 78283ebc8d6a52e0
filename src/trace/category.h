// Finds what kind of event it is from its category: names of Kineto from 2021 until today, CUDA,
// HIP, XPU, MTIA and other back ends.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/trace.h"

namespace mfu {

enum class Category : std::uint8_t {
  other,  // overhead, counters, instants: they take no time
  kernel,
  copy,
  set,
  runtime,
  op,
  annotation,
  python,
  launch_flow,    // ac2g, async_cpu_to_gpu, async: a launch and what it launched
  backward_flow,  // fwdbwd, forward_backward: a forward operator and its backward
};
Category parse_category(std::string_view category);

// Traces of 2021 write annotations as operators. They are recognised by their names.
bool is_annotation(std::string_view name);

// What the call does on the device, by the names of the CUDA, HIP and Level Zero runtimes and
// drivers.
LaunchKind launch_kind(std::string_view name);

// Whether a kernel moves data between devices: NCCL, RCCL and HCCL kernels, NVSHMEM, DeepEP's
// dispatch and combine, vLLM's one-shot and two-shot all-reduce (cross_device_reduce).
bool is_communication_kernel(std::string_view name);

// All-reduces that read the other ranks' memory themselves (PyTorch's symmetric memory) or also
// compute a norm (FlashInfer). They count as compute, as in other tools, and a note says so.
bool is_fused_all_reduce(std::string_view name);

}  // namespace mfu
