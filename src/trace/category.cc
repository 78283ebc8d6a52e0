#include "trace/category.h"

#include <array>
#include <string>
#include <utility>

#include "base/text.h"

namespace mfu {
namespace {

using Named = std::pair<std::string_view, Category>;
// Commonest first. "Kernel", "Operator" … are Kineto's of 2021.
constexpr std::array<Named, 34> kCategories = {{
    {"python_function", Category::python},
    {"cpu_op", Category::op},
    {"cuda_runtime", Category::runtime},
    {"ac2g", Category::launch_flow},
    {"kernel", Category::kernel},
    {"gpu_memcpy", Category::copy},
    {"gpu_memset", Category::set},
    {"user_annotation", Category::annotation},
    {"fwdbwd", Category::backward_flow},
    {"async_cpu_to_gpu", Category::launch_flow},
    {"cuda_driver", Category::runtime},
    {"Operator", Category::op},
    {"Kernel", Category::kernel},
    {"Runtime", Category::runtime},
    {"async", Category::launch_flow},
    {"async_gpu", Category::launch_flow},
    {"Memcpy", Category::copy},
    {"Memset", Category::set},
    {"forward_backward", Category::backward_flow},
    {"hip_runtime", Category::runtime},
    {"hip_driver", Category::runtime},
    {"xpu_runtime", Category::runtime},
    {"xpu_driver", Category::runtime},
    {"mtia_runtime", Category::runtime},
    {"privateuse1_runtime", Category::runtime},
    {"privateuse1_driver", Category::runtime},
    {"glow_runtime", Category::runtime},
    {"mlu_runtime", Category::runtime},
    {"hpu_op", Category::runtime},
    {"mtia_ccp_events", Category::kernel},
    {"collective_comm", Category::kernel},
    {"mlu_memcpy", Category::copy},
    {"mlu_memset", Category::set},
    {"cpu_user_annotation", Category::annotation},
}};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

Category parse_category(std::string_view category) {
  for (const auto& [name, kind] : kCategories) {
    if (name == category) return kind;
  }
  return Category::other;
}

LaunchKind launch_kind(std::string_view name) {
  if (contains(name, "GraphLaunch") || contains(name, "CommandListExecute"))
    return LaunchKind::graph;
  if (contains(name, "LaunchKernel") || contains(name, "LaunchCooperativeKernel") ||
      contains(name, "hipLaunchByPtr") || contains(name, "AppendLaunchKernel") ||
      contains(name, "EnqueueKernel") || name == "cuLaunch" || name == "cudaLaunch") {
    return LaunchKind::kernel;
  }
  if (contains(name, "Memcpy") || contains(name, "Memset") || contains(name, "MemoryCopy") ||
      contains(name, "MemoryFill")) {
    return LaunchKind::copy;
  }
  if (contains(name, "Synchronize")) return LaunchKind::synchronize;
  return LaunchKind::other;
}

bool is_communication_kernel(std::string_view name) {
  std::string lower = to_lower(name);
  if (contains(lower, "nccl") || contains(lower, "rccl") || contains(lower, "hccl")) return true;
  if (contains(lower, "nvshmem") || contains(lower, "cross_device_reduce")) return true;
  // DeepEP: deep_ep::intranode::dispatch<…>, deep_ep::internode::combine<…>, internode_ll.
  bool between = contains(lower, "intranode") || contains(lower, "internode");
  if (between && (contains(lower, "dispatch") || contains(lower, "combine"))) return true;
  return false;
}

bool is_fused_all_reduce(std::string_view name) {
  std::string lower = to_lower(name);
  for (std::string_view part : {"one_shot_all_reduce", "two_shot_all_reduce", "multimem_all_reduce",
                                "multimem_one_shot", "allreduce_fusion"}) {
    if (contains(lower, part)) return true;
  }
  return false;
}

}  // namespace mfu
