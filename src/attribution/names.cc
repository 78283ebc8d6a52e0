#include "attribution/names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace mfu {

namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <std::size_t N>
bool has_any(std::string_view text, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return has(text, part); });
}

std::string lower(std::string_view text) {
  std::string low(text);
  for (char& letter : low)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return low;
}

// In lower case. Covers cuBLAS, cuDNN (also sdpa and bprop), CUTLASS, hipBLASLt, Tensile,
// composable kernel, MIOpen, templates of Triton and vLLM, flash and memory-efficient attention,
// the experts of FlyDSL, ck_tile, AITER and Marlin, and the index scores of DeepGEMM.
constexpr std::array<std::string_view, 44> kMatmulParts = {"gemm",
                                                           "gemv",
                                                           "nvjet",
                                                           "cutlass",
                                                           "cublas",
                                                           "wgmma",
                                                           "cijk_",
                                                           "matmul",
                                                           "scudnn",
                                                           "dgrad",
                                                           "wgrad",
                                                           "fprop",
                                                           "winograd",
                                                           "conv2d",
                                                           "conv3d",
                                                           "convolve",
                                                           "convolution",
                                                           "implicit_con",
                                                           "conv_depth",
                                                           "conv_fwd",
                                                           "conv_bwd",
                                                           "_conv",
                                                           "xdlops",
                                                           "flash_fwd",
                                                           "flash_bwd",
                                                           "flash_attn",
                                                           "fmha",
                                                           "attn_fwd",
                                                           "attn_bwd",
                                                           "attention",
                                                           "sage_fwd",
                                                           "triton_tem_",
                                                           "bwd_kernel_dk",
                                                           "triton_mm",
                                                           "bmm_",
                                                           "sdpa",
                                                           "bprop",
                                                           "mfma_moe",
                                                           "flatmm",
                                                           "fmoe_",
                                                           "fused_moe_kernel",
                                                           "marlin",
                                                           "mqa_logits",
                                                           "wvsplitk"};
// These hold such a word and are something else: table lookups of fbgemm, fused element-wise and
// reduction kernels of Inductor (named after what they fuse), cache writes of paged attention,
// norms of ck_tile, separate layout changes of a convolution, kernels before and after an attention
// backward, sorting of experts and repacking of weights.
constexpr std::array<std::string_view, 24> kNotMatmulParts = {
    "fbgemm",      "triton_poi_", "triton_red_", "triton_per_", "reshape_and_cache",
    "norm",        "softmax",     "convert",     "elementwise", "reduce_kernel",
    "transpose",   "nchwtonhwc",  "nhwctonchw",  "rotary",      "memset",
    "quantize",    "copy_kernel", "dot_do_o",    "preprocess",  "_combine",
    "fmha_reduce", "repack",      "_sort",       "fwdcombine"};

}  // namespace

bool names_matmul(std::string_view kernel) {
  std::string low = lower(kernel);
  return has_any(low, kMatmulParts) && !has_any(low, kNotMatmulParts);
}

bool names_tf32(std::string_view kernel) {
  // cuBLAS and CUTLASS name a TF32 multiply after its instruction, s1688. If the same instruction
  // shape takes fp16 or bf16, the name says so too.
  bool half =
      has(kernel, "fp16") || has(kernel, "bf16") || has(kernel, "f16") || has(kernel, "h1688");
  return has(kernel, "tf32") || has(kernel, "TF32") || (has(kernel, "s1688") && !half);
}

bool names_data_loading(std::string_view range) {
  if (range.starts_with("enumerate(DataLoader)")) return true;
  if (has(range, ".py(")) {  // of Python frames, only those of the loader count
    return has(range, "torch/utils/data/dataloader.py") && has(range, "__next__");
  }
  static constexpr std::array<std::string_view, 9> kParts = {
      "dataloader",  "data_loader", "data loading", "load_batch", "next_batch",
      "fetch_batch", "get_batch",   "load_data",    "_next_data"};
  return has_any(lower(range), kParts);
}

bool names_blocking_call(std::string_view frame) {
  static constexpr std::array<std::string_view, 9> kParts = {
      "method sleep", "'acquire' of", "method acquire", "'poll' of",  "method select",
      "'select' of",  "'recv' of",    "'read' of",      "method wait"};
  return frame.starts_with('<') && has_any(frame, kParts);
}

bool names_synchronizing_operator(std::string_view op) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "aten::item",  "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero",
      "aten::equal", "aten::masked_select",       "aten::_unique2"};
  return std::find(kNames.begin(), kNames.end(), op) != kNames.end();
}

bool names_bookkeeping(std::string_view op) {
  return has(op, "dense_tensors") || has(op, "autograd::") || has(op, "ptimizer.") ||
         has(op, "c10d") || has(op, "record_param_comms");
}

bool names_blocking_copy(std::string_view call) {
  return has(call, "Memcpy") && !has(call, "Async") && !has(call, "Peer");
}

bool names_communication(std::string_view range) {
  static constexpr std::array<std::string_view, 6> kStarts = {
      "gloo:", "nccl:", "mpi:", "c10d::", "record_param_comms", "_c10d_functional::"};
  return std::any_of(kStarts.begin(), kStarts.end(),
                     [&](std::string_view start) { return range.starts_with(start); });
}

bool names_compilation(std::string_view range) {
  return range.ends_with(" (dynamo_timed)");
}

}  // namespace mfu
