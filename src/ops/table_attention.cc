#include "ops/formula.h"
#include "ops/table.h"

namespace mfu {
namespace {

using enum OperatorRole;
constexpr OperatorKind kKind = OperatorKind::attention;

// torch's is_causal starts at the top left corner; the flash kernels' at the bottom right.

// (query, key, value, attn_mask, dropout_p, is_causal, …)
constexpr OperatorFormula kMasked{AttentionLayout{.heads_second = true, .bias = 3, .causal = 5}};
// (query, key, value, dropout_p, is_causal, return_debug_mask, scale)
constexpr OperatorFormula kFlashDescaled{AttentionLayout{.heads_second = true, .causal = 7}};
constexpr OperatorFormula kFlash{AttentionLayout{.heads_second = true, .causal = 4},
                                 &kFlashDescaled, 10};
// (query, key, value, dropout_p, is_causal, attn_mask, scale)
constexpr OperatorFormula kFlashCpu{AttentionLayout{.heads_second = true, .bias = 5, .causal = 4}};
// (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, …)
constexpr OperatorFormula kEfficient{AttentionLayout{.heads_second = true, .bias = 3, .causal = 6}};
constexpr OperatorFormula kOldCudnn{AttentionLayout{.heads_second = true, .causal = 4}};
constexpr OperatorFormula kCudnn{AttentionLayout{.heads_second = true, .bias = 3, .causal = 6},
                                 &kOldCudnn, 7};
// Backward: (grad_out, query, key, value, out, logsumexp, …)
constexpr OperatorFormula kFlashBackward{
    AttentionLayout{.backward = true, .query = 1, .heads_second = true, .causal = 11}};
constexpr OperatorFormula kFlashCpuBackward{
    AttentionLayout{.backward = true, .query = 1, .heads_second = true, .bias = 8, .causal = 7}};
constexpr OperatorFormula kEfficientBackward{
    AttentionLayout{.backward = true, .query = 1, .heads_second = true, .bias = 4, .causal = 11}};
constexpr OperatorFormula kCudnnBackward{
    AttentionLayout{.backward = true, .query = 1, .heads_second = true, .bias = 8, .causal = 14}};
constexpr OperatorFormula kOverrideableBackward{
    AttentionLayout{.backward = true, .query = 1, .heads_second = true, .bias = 4, .causal = 13}};

// (query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, return_debug_mask,
// scale, window_size_left, window_size_right, seqused_k, alibi_slopes, block_table, …)
constexpr OperatorFormula kFlashRawDescaled{AttentionLayout{.causal = 8,
                                                            .bottom_right = true,
                                                            .window_left = 14,
                                                            .offsets_q = 3,
                                                            .longest_q = 5,
                                                            .used_keys = 16}};
constexpr OperatorFormula kFlashRaw{AttentionLayout{.causal = 8,
                                                    .bottom_right = true,
                                                    .window_left = 11,
                                                    .offsets_q = 3,
                                                    .longest_q = 5,
                                                    .used_keys = 13,
                                                    .pages = 15},
                                    &kFlashRawDescaled, 18};
constexpr OperatorFormula kFlashRawInPlace{AttentionLayout{.query = 1,
                                                           .causal = 9,
                                                           .bottom_right = true,
                                                           .window_left = 12,
                                                           .offsets_q = 4,
                                                           .longest_q = 6,
                                                           .used_keys = 14,
                                                           .pages = 16}};
constexpr OperatorFormula kFlashRawBackward{AttentionLayout{.backward = true,
                                                            .query = 1,
                                                            .causal = 11,
                                                            .bottom_right = true,
                                                            .window_left = 15,
                                                            .offsets_q = 6,
                                                            .longest_q = 8}};
// (query, key, value, bias, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p,
// custom_mask_type, compute_log_sumexp, scale, seqlen_k, window_size)
constexpr OperatorFormula kEfficientRaw{AttentionLayout{
    .bias = 3, .mask_type = 9, .window_keys = 13, .offsets_q = 4, .longest_q = 6, .used_keys = 12}};
constexpr OperatorFormula kEfficientRawBackward{AttentionLayout{.backward = true,
                                                                .query = 1,
                                                                .bias = 4,
                                                                .mask_type = 14,
                                                                .window_keys = 18,
                                                                .offsets_q = 6,
                                                                .longest_q = 8}};
constexpr OperatorFormula kCudnnRaw{
    AttentionLayout{.heads_second = true, .bias = 3, .causal = 10, .offsets_q = 4, .longest_q = 6}};
constexpr OperatorFormula kCudnnRawBackward{AttentionLayout{.backward = true,
                                                            .query = 1,
                                                            .heads_second = true,
                                                            .bias = 8,
                                                            .causal = 14,
                                                            .offsets_q = 9,
                                                            .longest_q = 11}};

// xformers: today's arguments are aten's; before, (query, key, value, attn_bias, seqstart_q,
// seqstart_k, max_seqlen_q, dropout_p, compute_logsumexp, custom_mask_type, scale, seqlen_k,
// window_size).
constexpr OperatorFormula kOldXformers{
    AttentionLayout{.bias = 3, .mask_type = 9, .window_keys = 12, .offsets_q = 4, .used_keys = 11}};
constexpr OperatorFormula kXformers{std::get<AttentionLayout>(kEfficientRaw.layout), &kOldXformers,
                                    13};
constexpr OperatorFormula kOldXformersBackward{AttentionLayout{.backward = true,
                                                               .query = 1,
                                                               .bias = 4,
                                                               .mask_type = 14,
                                                               .window_keys = 17,
                                                               .offsets_q = 5,
                                                               .longest_q = 7}};
constexpr OperatorFormula kXformersBackward{std::get<AttentionLayout>(kEfficientRawBackward.layout),
                                            &kOldXformersBackward, 18};

// flash-attn 2: (q, k, v, dropout_p, softmax_scale, causal, window_size_left, window_size_right, …)
constexpr OperatorFormula kFlashAttn{
    AttentionLayout{.causal = 5, .bottom_right = true, .window_left = 6}};
// (…, window_size_right, softcap, alibi_slopes, return_softmax, block_table, leftpad_k, seqused_k)
constexpr OperatorFormula kFlashAttnPacked{AttentionLayout{.causal = 9,
                                                           .bottom_right = true,
                                                           .window_left = 10,
                                                           .offsets_q = 3,
                                                           .longest_q = 5,
                                                           .used_keys = 17,
                                                           .pages = 15,
                                                           .padding = 16}};
// (dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal, windows…)
constexpr OperatorFormula kFlashAttnBackward{AttentionLayout{
    .backward = true, .query = 1, .causal = 11, .bottom_right = true, .window_left = 12}};
constexpr OperatorFormula kFlashAttnPackedBackward{AttentionLayout{.backward = true,
                                                                   .query = 1,
                                                                   .causal = 15,
                                                                   .bottom_right = true,
                                                                   .window_left = 16,
                                                                   .offsets_q = 9,
                                                                   .longest_q = 11}};
// The autograd functions around them: both windows in one tuple.
constexpr OperatorFormula kFlashAttnFunction{
    AttentionLayout{.causal = 5, .bottom_right = true, .window_pair = 6}};
constexpr OperatorFormula kFlashAttnPackedFunction{AttentionLayout{
    .causal = 9, .bottom_right = true, .window_pair = 10, .offsets_q = 3, .longest_q = 5}};
// flash-attn 3: (q, k, v, k_new, v_new, q_v, out, cu_seqlens_q, cu_seqlens_k, cu_seqlens_k_new,
// seqused_q, seqused_k, max_seqlen_q, max_seqlen_k, page_table, …, is_causal 24, windows 25, 26)
constexpr OperatorFormula kFlashAttn3{AttentionLayout{.causal = 24,
                                                      .bottom_right = true,
                                                      .window_left = 25,
                                                      .offsets_q = 7,
                                                      .longest_q = 12,
                                                      .used_keys = 11,
                                                      .pages = 14}};
// (dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k,
// max_seqlen_q, max_seqlen_k, softmax_scale, is_causal, windows…)
constexpr OperatorFormula kFlashAttn3Backward{AttentionLayout{.backward = true,
                                                              .query = 1,
                                                              .causal = 16,
                                                              .bottom_right = true,
                                                              .window_left = 17,
                                                              .offsets_q = 9,
                                                              .longest_q = 13,
                                                              .used_keys = 12}};
// aiter: (dout, q, k, v, out, softmax_lse, dropout_p, softmax_scale, is_causal, windows…), and with
// dq, dk, dv and dbias before the dropout.
constexpr OperatorFormula kAiterBackward{AttentionLayout{
    .backward = true, .query = 1, .causal = 8, .bottom_right = true, .window_left = 9}};
constexpr OperatorFormula kAiterFullBackward{AttentionLayout{
    .backward = true, .query = 1, .causal = 12, .bottom_right = true, .window_left = 13}};

// xformers' names for flash-attn: (query, key, value, cu_seqlens_q, cu_seqlens_k, seqused_k,
// max_seqlen_q, max_seqlen_k, p, scale, is_causal, windows…, return_softmax, block_tables, …), and
// (grads_share_storage, dout, query, key, value, out, lse, cu_seqlens_q, cu_seqlens_k,
// max_seqlen_q, max_seqlen_k, p, scale, is_causal, windows…)
constexpr OperatorFormula kXformersFlash{AttentionLayout{.causal = 10,
                                                         .bottom_right = true,
                                                         .window_left = 11,
                                                         .offsets_q = 3,
                                                         .longest_q = 6,
                                                         .used_keys = 5,
                                                         .pages = 14}};
constexpr OperatorFormula kXformersFlashBackward{AttentionLayout{.backward = true,
                                                                 .query = 2,
                                                                 .causal = 13,
                                                                 .bottom_right = true,
                                                                 .window_left = 14,
                                                                 .offsets_q = 7,
                                                                 .longest_q = 9}};

// vLLM on a CPU: (query, key_cache, value_cache, output, query_start_loc, seq_lens, scale, causal,
// alibi_slopes, sliding_window_size, block_table, …). A sequence's queries are its last positions.
constexpr OperatorFormula kPaged{AttentionLayout{.causal = 7,
                                                 .bottom_right = true,
                                                 .window_keys = 9,
                                                 .offsets_q = 4,
                                                 .used_keys = 5,
                                                 .paged = true}};

constexpr std::string_view kServing = "the lengths of its requests are not among its arguments";

constexpr Operator kRows[] = {
    {"aten::_scaled_dot_product_flash_attention", kKind, cover, &kFlash, {}},
    {"aten::_scaled_dot_product_flash_attention.quantized", kKind, cover, &kFlashDescaled, {}},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", kKind, leaf, &kFlashCpu, {}},
    {"aten::_scaled_dot_product_efficient_attention", kKind, cover, &kEfficient, {}},
    {"aten::_scaled_dot_product_cudnn_attention", kKind, cover, &kCudnn, {}},
    {"aten::_scaled_dot_product_fused_attention_overrideable", kKind, cover, &kMasked, {}},
    {"aten::_scaled_dot_product_attention_math_for_mps", kKind, cover, &kMasked, {}},
    {"aten::_scaled_dot_product_flash_attention_backward", kKind, cover, &kFlashBackward, {}},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     kKind,
     leaf,
     &kFlashCpuBackward,
     {}},
    {"aten::_scaled_dot_product_efficient_attention_backward",
     kKind,
     cover,
     &kEfficientBackward,
     {}},
    {"aten::_scaled_dot_product_cudnn_attention_backward", kKind, cover, &kCudnnBackward, {}},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward",
     kKind,
     cover,
     &kOverrideableBackward,
     {}},
    {"aten::_flash_attention_forward", kKind, leaf, &kFlashRaw, {}},
    {"aten::_flash_attention_forward.quantized", kKind, leaf, &kFlashRawDescaled, {}},
    {"aten::_flash_attention_forward_no_dropout_inplace", kKind, leaf, &kFlashRawInPlace, {}},
    {"aten::_flash_attention_backward", kKind, leaf, &kFlashRawBackward, {}},
    {"aten::_efficient_attention_forward", kKind, leaf, &kEfficientRaw, {}},
    {"aten::_efficient_attention_backward", kKind, leaf, &kEfficientRawBackward, {}},
    {"aten::_cudnn_attention_forward", kKind, leaf, &kCudnnRaw, {}},
    {"aten::_cudnn_attention_backward", kKind, leaf, &kCudnnRawBackward, {}},
    {"xformers::efficient_attention_forward_cutlass", kKind, cover, &kXformers, {}},
    {"xformers::efficient_attention_backward_cutlass", kKind, cover, &kXformersBackward, {}},
    {"xformers_flash::flash_fwd", kKind, cover, &kXformersFlash, {}},
    {"xformers_flash::flash_bwd", kKind, cover, &kXformersFlashBackward, {}},
    {"flash_attn::_flash_attn_forward", kKind, leaf, &kFlashAttn, {}},
    {"flash_attn::_flash_attn_varlen_forward", kKind, leaf, &kFlashAttnPacked, {}},
    {"flash_attn::_flash_attn_backward", kKind, leaf, &kFlashAttnBackward, {}},
    {"flash_attn::_flash_attn_varlen_backward", kKind, leaf, &kFlashAttnPackedBackward, {}},
    {"flash_attn_3::fwd", kKind, leaf, &kFlashAttn3, {}},
    {"flash_attn_3::bwd", kKind, leaf, &kFlashAttn3Backward, {}},
    {"aiter::_flash_attn_forward", kKind, cover, &kFlashAttn, {}},
    {"aiter::_flash_attn_backward", kKind, cover, &kAiterFullBackward, {}},
    {"aiter::mha_fwd", kKind, leaf, &kFlashAttn, {}},
    {"aiter::fmha_v3_fwd", kKind, leaf, &kFlashAttn, {}},
    {"aiter::mha_bwd", kKind, leaf, &kAiterBackward, {}},
    {"FlashAttnFunc", kKind, cover, &kFlashAttnFunction, "flash-attn's autograd function"},
    {"FlashAttnVarlenFunc", kKind, cover, &kFlashAttnPackedFunction, {}},

    {"aten::scaled_dot_product_attention", kKind, wrapper, &kMasked,
     "calls a fused form, or bmm where there is none"},
    {"aten::_scaled_dot_product_attention_math", kKind, wrapper, &kMasked, "calls bmm"},
    {"aten::_native_multi_head_attention", kKind, wrapper, nullptr, "calls mm and bmm"},
    {"aten::_transformer_encoder_layer_fwd", kKind, wrapper, nullptr, "calls addmm and bmm"},
    {"torch_attn::_varlen_attn", kKind, wrapper, nullptr, "calls _flash_attention_forward"},
    {"torch_attn::_varlen_attn_out", kKind, wrapper, nullptr, {}},
    {"torch_attn::_varlen_attn_backward", kKind, wrapper, nullptr,
     "calls _flash_attention_backward"},
    {"FlashAttnFuncBackward", kKind, wrapper, nullptr, "calls flash_attn::_flash_attn_backward"},
    {"FlashAttnVarlenFuncBackward", kKind, wrapper, nullptr,
     "calls flash_attn::_flash_attn_varlen_backward"},
    {"FlashAttnQKVPackedFunc", kKind, wrapper, nullptr, "calls flash_attn::_flash_attn_forward"},
    {"FlashAttnQKVPackedFuncBackward", kKind, wrapper, nullptr, {}},

    {"aten::_triton_scaled_dot_attention", kKind, uncounted, nullptr, "no formula yet"},
    {"aten::_triton_multi_head_attention", kKind, uncounted, nullptr, "no formula yet"},
    {"_C::cpu_attention_with_kv_cache", kKind, leaf, &kPaged, "vLLM on a CPU"},
    {"vllm::unified_attention", kKind, uncounted, nullptr, kServing},
    {"vllm::unified_attention_with_output", kKind, uncounted, nullptr, kServing},
    {"vllm::unified_mla_attention", kKind, uncounted, nullptr, kServing},
    {"vllm::unified_mla_attention_with_output", kKind, uncounted, nullptr, kServing},
    {"sglang::unified_attention_with_output", kKind, uncounted, nullptr, kServing},
};

}  // namespace

std::span<const Operator> attention_rows() {
  return kRows;
}

}  // namespace mfu
