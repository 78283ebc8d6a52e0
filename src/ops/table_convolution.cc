#include "ops/formula.h"
#include "ops/table.h"

namespace mfu {
namespace {

using enum OperatorRole;
constexpr OperatorKind kKind = OperatorKind::convolution;

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, …)
constexpr OperatorFormula kConvolution{
    ConvolutionLayout{.groups = 8, .output_padding = 7, .transposed = 6}};
// (input, weight, bias, stride, padding, dilation, groups)
constexpr OperatorFormula kPlain{ConvolutionLayout{.groups = 6}};
// (input, weight, bias, stride, padding, output_padding, groups, dilation)
constexpr OperatorFormula kTransposed{
    ConvolutionLayout{.dilation = 7, .groups = 6, .output_padding = 5, .always_transposed = true}};
// cuDNN: (self, weight, padding, stride, dilation, groups, …)
constexpr OperatorFormula kCudnn{
    ConvolutionLayout{.bias = kNoPosition, .stride = 3, .padding = 2, .dilation = 4, .groups = 5}};
constexpr OperatorFormula kCudnnTransposed{ConvolutionLayout{.bias = kNoPosition,
                                                             .stride = 4,
                                                             .padding = 2,
                                                             .dilation = 5,
                                                             .groups = 6,
                                                             .output_padding = 3,
                                                             .always_transposed = true}};
// MIOpen and oneDNN: (self, weight, bias, padding, stride, dilation, groups, …)
constexpr OperatorFormula kPaddingFirst{
    ConvolutionLayout{.stride = 4, .padding = 3, .dilation = 5, .groups = 6}};
constexpr OperatorFormula kPaddingFirstTransposed{ConvolutionLayout{.stride = 5,
                                                                    .padding = 3,
                                                                    .dilation = 6,
                                                                    .groups = 7,
                                                                    .output_padding = 4,
                                                                    .always_transposed = true}};
// (self, weight, z, alpha, bias, stride, padding, dilation, groups)
constexpr OperatorFormula kAddRelu{
    ConvolutionLayout{.bias = 4, .stride = 5, .padding = 6, .dilation = 7, .groups = 8}};
// (self, weight, kernel_size, bias, stride, padding[, dilation])
constexpr OperatorFormula kSlow{
    ConvolutionLayout{.bias = 3, .stride = 4, .padding = 5, .dilation = kNoPosition}};
constexpr OperatorFormula kSlowDilated{
    ConvolutionLayout{.bias = 3, .stride = 4, .padding = 5, .dilation = 6}};
constexpr OperatorFormula kSlowTransposed{ConvolutionLayout{.bias = 3,
                                                            .stride = 4,
                                                            .padding = 5,
                                                            .dilation = 7,
                                                            .output_padding = 6,
                                                            .always_transposed = true}};
// (input, weight, bias, padding, stride)
constexpr OperatorFormula kNnpack{
    ConvolutionLayout{.stride = 4, .padding = 3, .dilation = kNoPosition}};
constexpr OperatorFormula kTimeMajor{ConvolutionLayout{.padding = 3, .time_major = true}};
// oneDNN fused: (X, other, W, B, padding, stride, dilation, groups, …)
constexpr OperatorFormula kPointwiseBinary{ConvolutionLayout{
    .weight = 2, .bias = 3, .stride = 5, .padding = 4, .dilation = 6, .groups = 7}};
constexpr OperatorFormula kPointwise{
    ConvolutionLayout{.stride = 4, .padding = 3, .dilation = 5, .groups = 6}, &kPointwiseBinary,
    13};
// (other, X, W, B, padding, stride, dilation, groups, …)
constexpr OperatorFormula kPointwiseInPlace{ConvolutionLayout{
    .input = 1, .weight = 2, .bias = 3, .stride = 5, .padding = 4, .dilation = 6, .groups = 7}};
// (qx, x_scale, x_zero_point, qw, w_scale, w_zero_point[, accumulator], bias, stride, padding, …)
constexpr OperatorFormula kQuantizedBinary{ConvolutionLayout{
    .weight = 3, .bias = 7, .stride = 8, .padding = 9, .dilation = 10, .groups = 11}};
constexpr OperatorFormula kQuantized{
    ConvolutionLayout{
        .weight = 3, .bias = 6, .stride = 7, .padding = 8, .dilation = 9, .groups = 10},
    &kQuantizedBinary, 22};

// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask)
constexpr OperatorFormula kBackward{ConvolutionLayout{.input = 1,
                                                      .weight = 2,
                                                      .bias = kNoPosition,
                                                      .transposed = 7,
                                                      .grad_output = 0,
                                                      .gradients = 10}};
// The same without bias_sizes.
constexpr OperatorFormula kBackwardOverrideable{ConvolutionLayout{.input = 1,
                                                                  .weight = 2,
                                                                  .bias = kNoPosition,
                                                                  .transposed = 6,
                                                                  .grad_output = 0,
                                                                  .gradients = 9}};
// (grad_output, self, weight, kernel_size, stride, padding, output_mask)
constexpr OperatorFormula kSlowBackward{ConvolutionLayout{
    .input = 1, .weight = 2, .bias = kNoPosition, .grad_output = 0, .gradients = 6}};
// Before torch 1.11: (self, grad_output, weight, padding, stride, dilation, groups, benchmark,
// deterministic, allow_tf32, output_mask), and the halves it calls.
constexpr OperatorFormula kOldBackward{ConvolutionLayout{
    .input = 0, .weight = 2, .bias = kNoPosition, .grad_output = 1, .gradients = 10}};
// (self_size, grad_output, weight, …): the half that makes the input's gradient.
constexpr OperatorFormula kOldBackwardInput{ConvolutionLayout{
    .input = kNoPosition, .weight = 2, .bias = kNoPosition, .grad_output = 1, .gradient_count = 1}};
constexpr OperatorFormula kOldTransposedBackward{ConvolutionLayout{.input = 0,
                                                                   .weight = 2,
                                                                   .bias = kNoPosition,
                                                                   .always_transposed = true,
                                                                   .grad_output = 1,
                                                                   .gradients = 11}};
// (self, grad_output, weight, padding, stride, dilation, groups, output_mask)
constexpr OperatorFormula kMpsBackward{ConvolutionLayout{
    .input = 0, .weight = 2, .bias = kNoPosition, .grad_output = 1, .gradients = 7}};
constexpr OperatorFormula kMpsTransposedBackward{ConvolutionLayout{.input = 0,
                                                                   .weight = 2,
                                                                   .bias = kNoPosition,
                                                                   .always_transposed = true,
                                                                   .grad_output = 1,
                                                                   .gradients = 8}};

constexpr std::string_view kPacked = "its weight is packed";

constexpr Operator kRows[] = {
    {"aten::convolution", kKind, cover, &kConvolution, "reaches _convolution and a backend's own"},
    {"aten::_convolution", kKind, cover, &kConvolution, "reaches a backend's own"},
    {"aten::convolution_overrideable", kKind, cover, &kConvolution, {}},
    {"aten::cudnn_convolution", kKind, cover, &kCudnn, {}},
    {"aten::cudnn_convolution_transpose", kKind, cover, &kCudnnTransposed, {}},
    {"aten::cudnn_convolution_relu", kKind, cover, &kPlain, {}},
    {"aten::cudnn_convolution_add_relu", kKind, cover, &kAddRelu, {}},
    {"aten::miopen_convolution", kKind, cover, &kPaddingFirst, {}},
    {"aten::miopen_depthwise_convolution", kKind, cover, &kPaddingFirst, {}},
    {"aten::miopen_convolution_transpose", kKind, cover, &kPaddingFirstTransposed, {}},
    {"aten::miopen_convolution_relu", kKind, cover, &kPlain, {}},
    {"aten::miopen_convolution_add_relu", kKind, cover, &kAddRelu, {}},
    {"aten::mkldnn_convolution", kKind, cover, &kPaddingFirst, {}},
    {"aten::_mps_convolution", kKind, cover, &kPaddingFirst, {}},
    {"aten::_mps_convolution_transpose", kKind, cover, &kCudnnTransposed, {}},
    {"mkldnn::_convolution_pointwise", kKind, leaf, &kPointwise, {}},
    {"mkldnn::_convolution_pointwise.binary", kKind, leaf, &kPointwiseBinary, {}},
    {"mkldnn::_convolution_pointwise_", kKind, leaf, &kPointwiseInPlace, {}},
    {"mkldnn::_convolution_transpose_pointwise", kKind, leaf, &kPaddingFirstTransposed, {}},
    {"onednn::qconv_pointwise", kKind, leaf, &kQuantized, {}},
    {"onednn::qconv1d_pointwise", kKind, leaf, &kQuantized, {}},
    {"onednn::qconv2d_pointwise", kKind, leaf, &kQuantized, {}},
    {"onednn::qconv2d_pointwise.binary", kKind, leaf, &kQuantizedBinary, {}},
    {"onednn::qconv2d_pointwise.binary_tensor", kKind, leaf, &kQuantizedBinary, {}},
    {"onednn::qconv3d_pointwise", kKind, leaf, &kQuantized, {}},
    {"aten::_slow_conv2d_forward", kKind, cover, &kSlow, {}},
    {"aten::thnn_conv2d", kKind, cover, &kSlow, {}},
    {"aten::slow_conv3d", kKind, cover, &kSlow, {}},
    {"aten::slow_conv3d_forward", kKind, cover, &kSlow, {}},
    {"aten::slow_conv_dilated2d", kKind, cover, &kSlowDilated, {}},
    {"aten::slow_conv_dilated3d", kKind, cover, &kSlowDilated, {}},
    {"aten::slow_conv_transpose2d", kKind, cover, &kSlowTransposed, {}},
    {"aten::slow_conv_transpose3d", kKind, cover, &kSlowTransposed, {}},
    {"aten::_conv_depthwise2d", kKind, cover, &kSlowDilated, {}},
    {"aten::conv_depthwise3d", kKind, cover, &kSlowDilated, {}},
    {"aten::_nnpack_spatial_convolution", kKind, cover, &kNnpack, {}},
    {"aten::conv_tbc", kKind, cover, &kTimeMajor, "calls addmm per kernel position"},

    {"aten::convolution_backward", kKind, cover, &kBackward, "reaches a backend's own"},
    {"aten::convolution_backward_overrideable", kKind, cover, &kBackwardOverrideable, {}},
    {"aten::_slow_conv2d_backward", kKind, cover, &kSlowBackward, {}},
    {"aten::cudnn_convolution_backward", kKind, cover, &kOldBackward, "before torch 1.11"},
    {"aten::miopen_convolution_backward", kKind, cover, &kOldBackward, "before torch 1.11"},
    {"aten::cudnn_convolution_backward_input", kKind, leaf, &kOldBackwardInput,
     "before torch 1.11"},
    {"aten::miopen_convolution_backward_input", kKind, leaf, &kOldBackwardInput,
     "before torch 1.11"},
    {"aten::cudnn_convolution_transpose_backward", kKind, cover, &kOldTransposedBackward,
     "before torch 1.11"},
    {"aten::mps_convolution_backward", kKind, cover, &kMpsBackward, {}},
    {"aten::mps_convolution_transpose_backward", kKind, cover, &kMpsTransposedBackward, {}},

    {"aten::conv1d", kKind, wrapper, &kPlain, "calls convolution"},
    {"aten::conv2d", kKind, wrapper, &kPlain, "calls convolution"},
    {"aten::conv3d", kKind, wrapper, &kPlain, "calls convolution"},
    {"aten::conv_transpose1d", kKind, wrapper, &kTransposed, "calls convolution"},
    {"aten::conv_transpose2d", kKind, wrapper, &kTransposed, "calls convolution"},
    {"aten::conv_transpose3d", kKind, wrapper, &kTransposed, "calls convolution"},
    {"aten::_convolution_mode", kKind, wrapper, nullptr, "calls convolution"},
    {"aten::_convolution_double_backward", kKind, wrapper, nullptr, "calls convolution"},
    {"aten::conv_tbc_backward", kKind, wrapper, nullptr, "calls addmm"},

    {"aten::cudnn_convolution_backward_weight", kKind, uncounted, nullptr,
     "its weight is not among its arguments"},
    {"aten::miopen_convolution_backward_weight", kKind, uncounted, nullptr,
     "its weight is not among its arguments"},
    {"quantized::conv1d", kKind, uncounted, nullptr, kPacked},
    {"quantized::conv1d_relu", kKind, uncounted, nullptr, kPacked},
    {"quantized::conv2d", kKind, uncounted, nullptr, kPacked},
    {"quantized::conv2d_relu", kKind, uncounted, nullptr, kPacked},
    {"quantized::conv3d", kKind, uncounted, nullptr, kPacked},
    {"quantized::conv3d_relu", kKind, uncounted, nullptr, kPacked},
    {"mkldnn_prepacked::conv2d_run", kKind, uncounted, nullptr, kPacked},
};

}  // namespace

std::span<const Operator> convolution_rows() {
  return kRows;
}

}  // namespace mfu
