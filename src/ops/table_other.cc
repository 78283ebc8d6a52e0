#include "ops/formula.h"
#include "ops/table.h"

namespace mfu {
namespace {

using enum OperatorRole;
constexpr OperatorKind kRecurrent = OperatorKind::recurrent;
constexpr OperatorKind kLookup = OperatorKind::lookup;
constexpr OperatorKind kFourier = OperatorKind::fourier;
constexpr OperatorKind kAlgebra = OperatorKind::linear_algebra;
constexpr OperatorKind kPointwise = OperatorKind::elementwise;

constexpr OperatorFormula kOnednn{RecurrentLayout{.weights = 1}};
constexpr OperatorFormula kOnednnBackward{RecurrentLayout{.weights = 1, .backward = true}};
constexpr OperatorFormula kCudnn{
    RecurrentLayout{.mode = 6, .hidden = 7, .projection = 8, .layers = 9, .bidirectional = 13}};
constexpr OperatorFormula kCudnnBackward{RecurrentLayout{.mode = 10,
                                                         .hidden = 11,
                                                         .projection = 12,
                                                         .layers = 13,
                                                         .bidirectional = 17,
                                                         .backward = true,
                                                         .gradients = 21}};
constexpr OperatorFormula kMiopen{
    RecurrentLayout{.mode = 5, .hidden = 6, .layers = 7, .bidirectional = 11}};
constexpr OperatorFormula kMiopenBackward{RecurrentLayout{.mode = 10,
                                                          .hidden = 11,
                                                          .layers = 12,
                                                          .bidirectional = 16,
                                                          .backward = true,
                                                          .gradients = 20}};

constexpr OperatorFormula kEmbedding{LookupLayout{.table = 0}};
constexpr OperatorFormula kEmbeddingBackward{LookupLayout{.gradient = 0, .rows = 2}};

constexpr OperatorFormula kComplex{FourierLayout{}};
constexpr OperatorFormula kRealIn{FourierLayout{.real = true}};
constexpr OperatorFormula kRealOut{FourierLayout{.real = true, .last_size = 3}};

constexpr std::string_view kFourierNote =
    "a Fourier transform: an estimate by 5·N·log2 N, outside the counts";
constexpr std::string_view kAlgebraNote = "a factorisation or solve, no matrix multiply";
constexpr std::string_view kCells = "calls linear for its gates";

constexpr Operator kRows[] = {
    {"aten::mkldnn_rnn_layer", kRecurrent, leaf, &kOnednn, {}},
    {"aten::mkldnn_rnn_layer_backward", kRecurrent, leaf, &kOnednnBackward, {}},
    {"aten::_cudnn_rnn", kRecurrent, leaf, &kCudnn, {}},
    {"aten::_cudnn_rnn_backward", kRecurrent, leaf, &kCudnnBackward, {}},
    {"aten::miopen_rnn", kRecurrent, leaf, &kMiopen, {}},
    {"aten::miopen_rnn_backward", kRecurrent, leaf, &kMiopenBackward, {}},
    {"aten::lstm", kRecurrent, wrapper, nullptr, "calls a layer at a time, or linear"},
    {"aten::gru", kRecurrent, wrapper, nullptr, "calls a layer at a time, or linear"},
    {"aten::rnn_tanh", kRecurrent, wrapper, nullptr, "calls a layer at a time, or linear"},
    {"aten::rnn_relu", kRecurrent, wrapper, nullptr, "calls a layer at a time, or linear"},
    {"aten::lstm_cell", kRecurrent, wrapper, nullptr, kCells},
    {"aten::gru_cell", kRecurrent, wrapper, nullptr, kCells},
    {"aten::rnn_tanh_cell", kRecurrent, wrapper, nullptr, kCells},
    {"aten::rnn_relu_cell", kRecurrent, wrapper, nullptr, kCells},
    {"aten::_thnn_fused_lstm_cell", kPointwise, free, nullptr, {}},
    {"aten::_thnn_fused_lstm_cell_backward", kPointwise, free, nullptr, {}},
    {"aten::_thnn_fused_lstm_cell_backward_impl", kPointwise, free, nullptr, {}},
    {"aten::_thnn_differentiable_lstm_cell_backward", kPointwise, free, nullptr, {}},
    {"aten::_thnn_fused_gru_cell", kPointwise, free, nullptr, {}},
    {"aten::_thnn_fused_gru_cell_backward", kPointwise, free, nullptr, {}},
    {"aten::_thnn_differentiable_gru_cell_backward", kPointwise, free, nullptr, {}},
    {"aten::_lstm_mps", kRecurrent, uncounted, nullptr, "no formula yet"},
    {"aten::lstm_mps_backward", kRecurrent, uncounted, nullptr, "no formula yet"},
    {"aten::quantized_lstm", kRecurrent, uncounted, nullptr, "its weights are packed"},
    {"aten::quantized_gru", kRecurrent, uncounted, nullptr, "its weights are packed"},

    {"aten::embedding", kLookup, free, &kEmbedding, {}},
    {"aten::_embedding_bag", kLookup, free, &kEmbedding, {}},
    {"aten::_embedding_bag_forward_only", kLookup, free, &kEmbedding, {}},
    {"aten::embedding_bag", kLookup, free, &kEmbedding, {}},
    {"aten::embedding_dense_backward", kLookup, free, &kEmbeddingBackward, {}},
    {"aten::embedding_backward", kLookup, free, nullptr, {}},
    {"aten::embedding_sparse_backward", kLookup, free, nullptr, {}},

    {"aten::_fft_c2c", kFourier, uncounted, &kComplex, kFourierNote},
    {"aten::_fft_r2c", kFourier, uncounted, &kRealIn, kFourierNote},
    {"aten::_fft_c2r", kFourier, uncounted, &kRealOut, kFourierNote},

    {"aten::linalg_solve_triangular", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::triangular_solve", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::_spsolve", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::_linalg_solve_ex", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::linalg_cholesky_ex", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::cholesky", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::cholesky_inverse", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::_cholesky_solve_helper", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::linalg_lu_factor_ex", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::linalg_lu_solve", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::linalg_ldl_factor_ex", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::linalg_ldl_solve", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::linalg_inv_ex", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::_linalg_det", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::_linalg_slogdet", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::linalg_qr", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::geqrf", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::ormqr", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::linalg_householder_product", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::_linalg_svd", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::linalg_eig", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::_linalg_eigh", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::_linalg_eigvals", kAlgebra, uncounted, nullptr, kAlgebraNote},
    {"aten::linalg_lstsq", kAlgebra, uncounted, nullptr, kAlgebraNote},
};

}  // namespace

std::span<const Operator> other_rows() {
  return kRows;
}

}  // namespace mfu
