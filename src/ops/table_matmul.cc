#include "ops/formula.h"
#include "ops/table.h"

namespace mfu {
namespace {

using Form = MatmulLayout::Form;
using enum OperatorRole;
constexpr OperatorKind kKind = OperatorKind::matmul;

constexpr OperatorFormula kMm{MatmulLayout{.result_type = 2}};
constexpr OperatorFormula kAddmm{MatmulLayout{.left = 1, .right = 2, .added = 0}};
constexpr OperatorFormula kAddmmTyped{
    MatmulLayout{.left = 1, .right = 2, .added = 0, .result_type = 3}};
constexpr OperatorFormula kBmm{MatmulLayout{.form = Form::batched, .result_type = 2}};
constexpr OperatorFormula kBaddbmm{
    MatmulLayout{.form = Form::batched, .left = 1, .right = 2, .added = 0}};
constexpr OperatorFormula kBaddbmmTyped{
    MatmulLayout{.form = Form::batched, .left = 1, .right = 2, .added = 0, .result_type = 3}};
constexpr OperatorFormula kMv{MatmulLayout{.form = Form::vector}};
constexpr OperatorFormula kAddmv{
    MatmulLayout{.form = Form::vector, .left = 1, .right = 2, .added = 0}};
constexpr OperatorFormula kDot{MatmulLayout{.form = Form::dot}};
constexpr OperatorFormula kAddr{
    MatmulLayout{.form = Form::outer, .left = 1, .right = 2, .added = 0}};
constexpr OperatorFormula kLinear{MatmulLayout{.form = Form::linear, .added = 2}};
constexpr OperatorFormula kMatmul{MatmulLayout{.form = Form::broadcast}};
constexpr OperatorFormula kIntMm{MatmulLayout{.result = ElementType::int32}};
constexpr OperatorFormula kScaledMm{MatmulLayout{.added = 4, .result_type = 6}};
constexpr OperatorFormula kScaledMmV2{MatmulLayout{.added = 8, .result_type = 9}};
constexpr OperatorFormula kGroupedMm{
    MatmulLayout{.form = Form::grouped, .added = 3, .result_type = 4}};
constexpr OperatorFormula kScaledGroupedMm{
    MatmulLayout{.form = Form::grouped, .added = 5, .result_type = 7}};
constexpr OperatorFormula kScaledGroupedMmV2{
    MatmulLayout{.form = Form::grouped, .added = 9, .result_type = 10}};
constexpr OperatorFormula kInt4Packed{MatmulLayout{.form = Form::scaled, .extra = 3}};
constexpr OperatorFormula kInt8Packed{MatmulLayout{.form = Form::linear}};
constexpr OperatorFormula kDynamic4Bit{
    MatmulLayout{.form = Form::features, .extra = 3, .compute = ElementType::int8}};
constexpr OperatorFormula kQuantizedLinear{
    MatmulLayout{.form = Form::opaque, .right = kNoPosition, .compute = ElementType::int8}};
constexpr OperatorFormula kHalfLinear{
    MatmulLayout{.form = Form::opaque, .right = kNoPosition, .compute = ElementType::fp16}};
constexpr OperatorFormula kHalfLinearPlain{
    MatmulLayout{.form = Form::linear, .added = 2, .compute = ElementType::fp16}};
constexpr OperatorFormula kQuantizedMatmul{
    MatmulLayout{.form = Form::broadcast, .compute = ElementType::int8}};
constexpr OperatorFormula kSparseMm{MatmulLayout{.form = Form::sparse, .right = 2}};
constexpr OperatorFormula kSparseAddmm{
    MatmulLayout{.form = Form::sparse, .left = 1, .right = 3, .added = 0}};
constexpr OperatorFormula kSparseLinear{MatmulLayout{.form = Form::sparse_linear, .added = 3}};
constexpr OperatorFormula kPointwiseBinary{
    MatmulLayout{.form = Form::linear, .right = 2, .added = 1}};
constexpr OperatorFormula kPointwise{MatmulLayout{.form = Form::linear, .added = 2},
                                     &kPointwiseBinary, 5};
constexpr OperatorFormula kMkl{MatmulLayout{.form = Form::linear, .right = 2, .added = 3}};
constexpr OperatorFormula kOnednnLinear{
    MatmulLayout{.form = Form::linear, .right = 3, .compute = ElementType::int8}};
constexpr OperatorFormula kLinearInput{MatmulLayout{.form = Form::linear, .left = 1, .right = 2}};
constexpr OperatorFormula kLinearWeights{MatmulLayout{.form = Form::linear, .right = 2}};
constexpr OperatorFormula kOutFirst{MatmulLayout{.left = 1, .right = 2, .added = 5}};
constexpr OperatorFormula kTransformerEngine{
    MatmulLayout{.form = Form::flagged, .left = 0, .right = 5}};

constexpr OperatorFormula kByResult{MatmulLayout{.form = Form::opaque, .right = kNoPosition}};
constexpr OperatorFormula kByOutput{
    MatmulLayout{.form = Form::opaque, .left = 1, .right = kNoPosition, .added = 2, .extra = 0}};
constexpr OperatorFormula kScaledByOutput{
    MatmulLayout{.form = Form::opaque, .left = 1, .right = kNoPosition, .added = 5, .extra = 0}};
constexpr OperatorFormula kListed{MatmulLayout{.form = Form::listed}};

constexpr std::string_view kSparseNote = "2:4 sparse: the products that are made, half of 2mnk";
constexpr std::string_view kNonzeros = "its products depend on how many elements are not zero";

constexpr Operator kRows[] = {
    {"aten::mm", kKind, leaf, &kMm, {}},
    {"aten::addmm", kKind, leaf, &kAddmm, {}},
    {"aten::addmm.dtype", kKind, leaf, &kAddmmTyped, {}},
    {"aten::addmm.dtype_out", kKind, leaf, &kAddmmTyped, {}},
    {"aten::bmm", kKind, leaf, &kBmm, {}},
    {"aten::baddbmm", kKind, leaf, &kBaddbmm, {}},
    {"aten::baddbmm.dtype", kKind, leaf, &kBaddbmmTyped, {}},
    {"aten::baddbmm.dtype_out", kKind, leaf, &kBaddbmmTyped, {}},
    {"aten::addbmm", kKind, cover, &kBaddbmm, "loops over addmm on a CPU"},
    {"aten::mv", kKind, cover, &kMv, "calls addmv"},
    {"aten::addmv", kKind, leaf, &kAddmv, {}},
    {"aten::dot", kKind, leaf, &kDot, {}},
    {"aten::vdot", kKind, cover, &kDot, "calls dot for real numbers"},
    {"aten::addr", kKind, leaf, &kAddr, "a product with an inner dimension of 1"},
    {"aten::_addmm_activation", kKind, cover, &kAddmm, {}},
    {"aten::_int_mm", kKind, leaf, &kIntMm, {}},
    {"aten::_scaled_mm", kKind, cover, &kScaledMm, "a CPU without fp8 calls mm"},
    {"aten::_scaled_mm_v2", kKind, cover, &kScaledMmV2, {}},
    {"aten::_grouped_mm", kKind, cover, &kGroupedMm,
     "calls mm.out per group where it has no kernel"},
    {"aten::_scaled_grouped_mm", kKind, cover, &kScaledGroupedMm, {}},
    {"aten::_scaled_grouped_mm_v2", kKind, cover, &kScaledGroupedMmV2, {}},
    {"aten::_weight_int4pack_mm", kKind, leaf, &kInt4Packed, {}},
    {"aten::_weight_int4pack_mm_for_cpu", kKind, leaf, &kInt4Packed, {}},
    {"aten::_weight_int4pack_mm_with_scales_and_zeros", kKind, leaf, &kInt4Packed, {}},
    {"aten::_weight_int8pack_mm", kKind, leaf, &kInt8Packed, {}},
    {"aten::_dyn_quant_matmul_4bit", kKind, leaf, &kDynamic4Bit, {}},
    {"aten::_sparse_semi_structured_mm", kKind, leaf, &kSparseMm, kSparseNote},
    {"aten::_sparse_semi_structured_addmm", kKind, leaf, &kSparseAddmm, kSparseNote},
    {"aten::_sparse_semi_structured_linear", kKind, leaf, &kSparseLinear, kSparseNote},
    {"aten::mkldnn_linear", kKind, leaf, &kLinear, {}},
    {"aten::mkldnn_linear_backward_input", kKind, leaf, &kLinearInput, {}},
    {"aten::mkldnn_linear_backward_weights", kKind, leaf, &kLinearWeights, {}},
    {"mkldnn::_linear_pointwise", kKind, leaf, &kPointwise, {}},
    {"mkldnn::_linear_pointwise.binary", kKind, leaf, &kPointwiseBinary, {}},
    {"mkl::_mkl_linear", kKind, leaf, &kMkl, {}},
    {"onednn::qlinear_pointwise", kKind, leaf, &kOnednnLinear, {}},
    {"onednn::linear_dynamic_fp16", kKind, leaf, &kHalfLinearPlain, {}},
    {"onednn::linear_relu_dynamic_fp16", kKind, leaf, &kHalfLinearPlain, {}},
    {"quantized::linear", kKind, leaf, &kQuantizedLinear, {}},
    {"quantized::linear_relu", kKind, leaf, &kQuantizedLinear, {}},
    {"quantized::linear_leaky_relu", kKind, leaf, &kQuantizedLinear, {}},
    {"quantized::linear_tanh", kKind, leaf, &kQuantizedLinear, {}},
    {"quantized::linear_dynamic", kKind, leaf, &kQuantizedLinear, {}},
    {"quantized::linear_relu_dynamic", kKind, leaf, &kQuantizedLinear, {}},
    {"quantized::linear_with_input_q_dq_qweight_dq_output_fp32",
     kKind,
     leaf,
     &kQuantizedLinear,
     {}},
    {"quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32",
     kKind,
     leaf,
     &kQuantizedLinear,
     {}},
    {"quantized::linear_dynamic_fp16", kKind, leaf, &kHalfLinear, {}},
    {"quantized::linear_relu_dynamic_fp16", kKind, leaf, &kHalfLinear, {}},
    {"quantized::linear_dynamic_fp16_unpacked_weight", kKind, leaf, &kHalfLinearPlain, {}},
    {"quantized::matmul", kKind, leaf, &kQuantizedMatmul, {}},
    {"quantized::int4mm_packed_weight_cpu", kKind, cover, &kInt4Packed, {}},
    {"aten::fbgemm_linear_int8_weight", kKind, leaf, &kInt8Packed, {}},
    {"aten::fbgemm_linear_int8_weight_fp32_activation", kKind, leaf, &kInt8Packed, {}},
    {"aten::fbgemm_linear_fp16_weight", kKind, leaf, &kHalfLinear, {}},
    {"aten::fbgemm_linear_fp16_weight_fp32_activation", kKind, leaf, &kHalfLinear, {}},
    {"symm_mem::_async_input_mm", kKind, leaf, &kMm, {}},
    {"_C::cutlass_scaled_mm", kKind, leaf, &kOutFirst, "vLLM"},
    {"_C::cutlass_scaled_mm_azp", kKind, leaf, &kOutFirst, "vLLM"},
    {"_C::onednn_mm", kKind, leaf, &kByOutput, "vLLM on a CPU"},
    {"_C::onednn_scaled_mm", kKind, leaf, &kScaledByOutput, "vLLM on a CPU"},
    {"vllm::rocm_unquantized_gemm", kKind, cover, &kLinear, {}},
    {"vllm::rocm_unquantized_gemm_impl", kKind, cover, &kLinear, {}},
    {"trtllm::cublas_scaled_mm", kKind, leaf, &kMm, {}},
    {"bitsandbytes::int8_linear_matmul", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::f8f8bf16", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::f8f8bf16_cublas", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::f8f8bf16_lite", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::f8f8bf16_rowwise", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::f8f8bf16_blockwise", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::f8f8bf16_groupwise", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::f8f8bf16_tensorwise", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::f8f8f16_rowwise", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::i8i8bf16", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::bf16_fast_gemv", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::bf16fp8bf16_fast_gemv", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::fp8fp8bf16_fast_gemv", kKind, cover, &kInt8Packed, {}},
    {"fbgemm::f8f8bf16_rowwise_batched", kKind, cover, &kByResult, {}},
    {"fbgemm::f8f8bf16_rowwise_grouped_stacked", kKind, cover, &kByResult, {}},
    {"fbgemm::f8f8bf16_rowwise_grouped_dynamic", kKind, cover, &kByResult, {}},
    {"fbgemm::f8f8bf16_groupwise_grouped", kKind, cover, &kByResult, {}},
    {"fbgemm::bf16bf16bf16_grouped_stacked", kKind, cover, &kByResult, {}},
    {"fbgemm::bf16bf16bf16_grouped_dynamic", kKind, cover, &kByResult, {}},
    {"fbgemm::f8i4bf16_rowwise", kKind, cover, &kByResult, {}},
    {"fbgemm::f8i4bf16_shuffled", kKind, cover, &kByResult, {}},
    {"fbgemm::f8i4bf16_shuffled_grouped", kKind, cover, &kByResult, {}},
    {"fbgemm::bf16i4bf16_rowwise", kKind, cover, &kByResult, {}},
    {"fbgemm::bf16i4bf16", kKind, cover, &kByResult, {}},
    {"fbgemm::bf16i4bf16_rowwise_batched", kKind, cover, &kByResult, {}},
    {"fbgemm::bf16i4bf16_shuffled", kKind, cover, &kByResult, {}},
    {"fbgemm::bf16i4bf16_shuffled_grouped", kKind, cover, &kByResult, {}},
    {"fbgemm::i8i8bf16_dynamic", kKind, cover, &kByResult, {}},
    {"fbgemm::f8f8bf16_rowwise_grouped", kKind, cover, &kListed, {}},
    {"fbgemm::f8f8bf16_rowwise_grouped_cat", kKind, cover, &kListed, {}},
    {"fbgemm::bf16bf16bf16_grouped", kKind, cover, &kListed, {}},
    {"fbgemm::bf16bf16bf16_grouped_cat", kKind, cover, &kListed, {}},
    {"mslk::f8f8bf16", kKind, cover, &kInt8Packed, {}},
    {"mslk::f8f8bf16_cublas", kKind, cover, &kInt8Packed, {}},
    {"mslk::f8f8bf16_lite", kKind, cover, &kInt8Packed, {}},
    {"mslk::f8f8bf16_rowwise", kKind, cover, &kInt8Packed, {}},
    {"mslk::f8f8bf16_blockwise", kKind, cover, &kInt8Packed, {}},
    {"mslk::f8f8bf16_groupwise", kKind, cover, &kInt8Packed, {}},
    {"mslk::f8f8bf16_tensorwise", kKind, cover, &kInt8Packed, {}},
    {"mslk::f8f8f16_rowwise", kKind, cover, &kInt8Packed, {}},
    {"mslk::i8i8bf16", kKind, cover, &kInt8Packed, {}},
    {"mslk::bf16_fast_gemv", kKind, cover, &kInt8Packed, {}},
    {"mslk::bf16fp8bf16_fast_gemv", kKind, cover, &kInt8Packed, {}},
    {"mslk::fp8fp8bf16_fast_gemv", kKind, cover, &kInt8Packed, {}},
    {"mslk::f8f8bf16_rowwise_batched", kKind, cover, &kByResult, {}},
    {"mslk::f8f8bf16_rowwise_grouped_stacked", kKind, cover, &kByResult, {}},
    {"mslk::f8f8bf16_rowwise_grouped_dynamic", kKind, cover, &kByResult, {}},
    {"mslk::f8f8bf16_groupwise_grouped", kKind, cover, &kByResult, {}},
    {"mslk::bf16bf16bf16_grouped_stacked", kKind, cover, &kByResult, {}},
    {"mslk::bf16bf16bf16_grouped_dynamic", kKind, cover, &kByResult, {}},
    {"mslk::f8i4bf16_rowwise", kKind, cover, &kByResult, {}},
    {"mslk::f8i4bf16_shuffled", kKind, cover, &kByResult, {}},
    {"mslk::f8i4bf16_shuffled_grouped", kKind, cover, &kByResult, {}},
    {"mslk::bf16i4bf16_rowwise", kKind, cover, &kByResult, {}},
    {"mslk::bf16i4bf16", kKind, cover, &kByResult, {}},
    {"mslk::bf16i4bf16_rowwise_batched", kKind, cover, &kByResult, {}},
    {"mslk::bf16i4bf16_shuffled", kKind, cover, &kByResult, {}},
    {"mslk::bf16i4bf16_shuffled_grouped", kKind, cover, &kByResult, {}},
    {"mslk::i8i8bf16_dynamic", kKind, cover, &kByResult, {}},
    {"mslk::f8f8bf16_rowwise_grouped", kKind, cover, &kListed, {}},
    {"mslk::f8f8bf16_rowwise_grouped_cat", kKind, cover, &kListed, {}},
    {"mslk::bf16bf16bf16_grouped", kKind, cover, &kListed, {}},
    {"mslk::bf16bf16bf16_grouped_cat", kKind, cover, &kListed, {}},
    {"tex_ts::te_gemm_ts", kKind, leaf, &kTransformerEngine, "TransformerEngine"},

    {"aten::linear", kKind, wrapper, &kLinear, "calls addmm, or mm and add"},
    {"aten::matmul", kKind, wrapper, &kMatmul, "calls mm, bmm, mv or dot"},
    {"aten::linalg_matmul", kKind, wrapper, &kMatmul, {}},
    {"aten::einsum", kKind, wrapper, nullptr, "calls bmm"},
    {"aten::tensordot", kKind, wrapper, nullptr, "calls mm"},
    {"aten::inner", kKind, wrapper, nullptr, {}},
    {"aten::chain_matmul", kKind, wrapper, nullptr, {}},
    {"aten::linalg_multi_dot", kKind, wrapper, nullptr, {}},
    {"aten::linalg_vecdot", kKind, wrapper, nullptr, {}},
    {"aten::linalg_matrix_power", kKind, wrapper, nullptr, {}},
    {"aten::matrix_power", kKind, wrapper, nullptr, {}},
    {"aten::linalg_matrix_exp", kKind, wrapper, nullptr, {}},
    {"aten::bilinear", kKind, wrapper, nullptr, {}},
    {"aten::_trilinear", kKind, wrapper, nullptr, {}},
    {"aten::linear_backward", kKind, wrapper, nullptr, {}},
    {"aten::matmul_backward", kKind, wrapper, nullptr, {}},
    {"aten::mkldnn_linear_backward", kKind, wrapper, nullptr, {}},
    {"aten::_foreach_mm", kKind, wrapper, nullptr, {}},
    {"aten::cdist", kKind, wrapper, nullptr, {}},
    {"aten::_cdist_forward", kKind, wrapper, nullptr, "calls mm for large Euclidean distances"},
    {"aten::_euclidean_dist", kKind, wrapper, nullptr, "calls matmul"},
    {"inductor::_mm_plus_mm", kKind, wrapper, nullptr, "calls mm and addmm"},
    {"symm_mem::fused_all_gather_matmul", kKind, wrapper, nullptr, {}},
    {"symm_mem::fused_matmul_reduce_scatter", kKind, wrapper, nullptr, {}},
    {"symm_mem::fused_all_gather_scaled_matmul", kKind, wrapper, nullptr, {}},
    {"symm_mem::fused_scaled_matmul_reduce_scatter", kKind, wrapper, nullptr, {}},

    {"aten::outer", OperatorKind::elementwise, free, nullptr, "an elementwise product"},
    {"aten::_cdist_backward", OperatorKind::elementwise, free, nullptr, {}},

    {"aten::_cslt_sparse_mm", kKind, uncounted, nullptr, "its compressed operand hides its sizes"},
    {"aten::_sparse_mm", kKind, uncounted, nullptr, kNonzeros},
    {"aten::_sparse_addmm", kKind, uncounted, nullptr, kNonzeros},
    {"aten::_sparse_sparse_matmul", kKind, uncounted, nullptr, kNonzeros},
    {"aten::_sparse_mm_reduce_impl", kKind, uncounted, nullptr, kNonzeros},
    {"aten::sspaddmm", kKind, uncounted, nullptr, kNonzeros},
    {"aten::hspmm", kKind, uncounted, nullptr, kNonzeros},
    {"aten::smm", kKind, uncounted, nullptr, kNonzeros},
    {"sparse::qlinear", kKind, uncounted, nullptr, kNonzeros},
    {"vllm::moe_forward", kKind, uncounted, nullptr, "its weights are not among its arguments"},
    {"vllm::moe_forward_shared", kKind, uncounted, nullptr,
     "its weights are not among its arguments"},
};

}  // namespace

std::span<const Operator> matmul_rows() {
  return kRows;
}

}  // namespace mfu
