#include "trace/category.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/text.h"

namespace mfu {
namespace {

using Named = std::pair<std::string_view, Category>;
// The most frequent come first. "Kernel", "Operator", … are names of Kineto in 2021.
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

// "void a::f<int>(…)" becomes "f": namespaces, result, template arguments and parameters are
// removed.
std::string_view function_of(std::string_view kernel) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  if (auto at = kernel.find(kUnnamed); at != std::string_view::npos) {
    kernel.remove_prefix(at + kUnnamed.size());
  }
  kernel = kernel.substr(0, kernel.find_first_of("<("));
  if (auto at = kernel.find_last_of(": "); at != std::string_view::npos) {
    kernel.remove_prefix(at + 1);
  }
  return kernel;
}

}  // namespace

Category parse_category(std::string_view category) {
  for (const auto& [name, kind] : kCategories) {
    if (name == category) return kind;
  }
  return Category::other;
}

bool is_annotation(std::string_view name) {
  for (std::string_view begin : {"ProfilerStep", "enumerate(DataLoader)#", "Optimizer.step#",
                                 "Optimizer.zero_grad#", "DistributedDataParallel.forward"}) {
    if (name.starts_with(begin)) return true;
  }
  return false;
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
  // NCCL and similar libraries; MSCCL of RCCL; NVSHMEM and the kernels of its host calls
  // (barrier_on_stream_kernel_threadgroup<…>); all-reduce of vLLM and AITER; all-to-all of experts
  // in TensorRT-LLM, MORI and DLSlime; kernels of DeepEP in any namespace.
  static constexpr std::array<std::string_view, 20> kParts = {"nccl",
                                                              "rccl",
                                                              "hccl",
                                                              "msccl",
                                                              "oneccl",
                                                              "nvshmem",
                                                              "rocshmem",
                                                              "ishmem",
                                                              "_on_stream_kernel",
                                                              "cross_device_reduce",
                                                              "moea2adispatch",
                                                              "moea2acombine",
                                                              "moealltoall",
                                                              "epdispatch",
                                                              "epcombine",
                                                              "intranode_alltoall",
                                                              "notify_dispatch",
                                                              "notify_combine",
                                                              "hybrid_ep::dispatch_kernel",
                                                              "hybrid_ep::combine_kernel"};
  std::string lower = to_lower(name);
  if (std::any_of(kParts.begin(), kParts.end(),
                  [&](std::string_view part) { return contains(lower, part); })) {
    return true;
  }
  // DeepEP: deep_ep::intranode::dispatch<…>, dpsk::ep::internode::combine_ll, uccl::internode_ll.
  bool between = contains(lower, "intranode") || contains(lower, "internode");
  if (between && (contains(lower, "dispatch") || contains(lower, "combine"))) return true;
  bool library = contains(lower, "deep_ep") || contains(lower, "uccl::");
  if (library && !contains(lower, "layout")) return true;  // get_dispatch_layout only counts
  std::string_view function = function_of(lower);
  return function == "dispatch" || function == "combine";
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
