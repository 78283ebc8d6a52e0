#include "ops/formulas.h"
#include "ops/reading.h"

namespace mfu {
namespace {

constexpr std::size_t kMostSpatial = 4;

// An input without a batch dimension is a batch of one.
struct Image {
  std::int64_t batch = 1;
  Sizes spatial;
};

Result<Image> image_of(Sizes sizes, std::size_t spatial) {
  if (sizes.size() == spatial + 2) return Image{.batch = sizes[0], .spatial = sizes.subspan(2)};
  if (sizes.size() == spatial + 1) return Image{.spatial = sizes.subspan(1)};
  return contradiction("the weight's dimensions do not fit the input's");
}

struct Geometry {
  std::int64_t stride, padding, dilation;
};

Result<Geometry> geometry(const ConvolutionLayout& layout, const Call& call, std::size_t index) {
  Geometry found{};
  found.stride = MFU_TRY(list_element(call, layout.stride, index, 1, "stride"));
  found.padding = MFU_TRY(list_element(call, layout.padding, index, 0, "padding"));
  found.dilation = MFU_TRY(list_element(call, layout.dilation, index, 1, "dilation"));
  if (found.stride == 0) return contradiction("the stride is 0");
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (found.stride > kMost || found.padding > kMost || found.dilation > kMost) {
    return contradiction("a stride, padding or dilation larger than any image");
  }
  return found;
}

// Positions of the output, one dimension after the other.
Result<std::uint64_t> output_positions(const ConvolutionLayout& layout, const Call& call,
                                       const Image& input, Sizes kernel) {
  std::uint64_t positions = 1;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    Geometry at = MFU_TRY(geometry(layout, call, i));
    std::int64_t size =
        convolved_size(input.spatial[i], kernel[i], at.stride, at.padding, at.dilation);
    positions = times(positions, size_of(size));
  }
  return positions;
}

Result<bool> is_transposed(const ConvolutionLayout& layout, const Call& call) {
  if (layout.always_transposed) return true;
  if (layout.transposed < 0) return false;
  std::int64_t flag = MFU_TRY(integer_needed(call, layout.transposed, "transposed"));
  return flag != 0;
}

void fill_forward(const ConvolutionLayout& layout, const Call& call, std::uint64_t written,
                  OperatorCost& cost) {
  cost.compute_type = type_at(call, layout.input);
  if (cost.compute_type == ElementType::uint8) cost.compute_type = ElementType::int8;
  cost.read_bytes = sum_of({tensor_bytes(call, layout.input), tensor_bytes(call, layout.weight),
                            tensor_bytes(call, layout.bias)});
  cost.written_bytes = bytes_for(written, type_at(call, layout.input));
}

// The elements that a transposed convolution writes: there are stride − 1 gaps between the inputs,
// and out/groups channels for each group.
Result<std::uint64_t> spread_elements(const ConvolutionLayout& layout, const Call& call,
                                      const Image& input, Sizes weight) {
  Sizes kernel = weight.last(input.spatial.size());
  std::uint64_t elements = times(size_of(input.batch), size_of(weight[1]));
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    Geometry at = MFU_TRY(geometry(layout, call, i));
    std::int64_t extra = MFU_TRY(list_element(call, layout.output_padding, i, 0, "output_padding"));
    std::int64_t size = (input.spatial[i] - 1) * at.stride - 2 * at.padding +
                        at.dilation * (kernel[i] - 1) + 1 + extra;
    elements = times(elements, size_of(size));
  }
  std::int64_t groups = MFU_TRY(list_element(call, layout.groups, 0, 1, "groups"));
  return times(elements, size_of(groups));
}

Result<OperatorCost> forward(const ConvolutionLayout& layout, const Call& call) {
  Sizes weight = MFU_TRY(tensor_sizes(call, layout.weight, 3));
  Sizes sizes = MFU_TRY(tensor_sizes(call, layout.input, 2));
  // oneDNN may pass a grouped weight with the groups as a separate dimension.
  std::size_t spatial =
      sizes.size() > 2 && weight.size() == sizes.size() + 1 ? sizes.size() - 2 : weight.size() - 2;
  if (spatial > kMostSpatial) return contradiction("the weight has too many dimensions");
  Image input = MFU_TRY(image_of(sizes, spatial));
  Sizes kernel = weight.last(spatial);
  bool transposed = MFU_TRY(is_transposed(layout, call));
  std::uint64_t per_position = times(times(size_of(input.batch), product_of(weight)), 2);
  if (transposed) {
    std::uint64_t flop = times(per_position, product_of(input.spatial));
    OperatorCost cost = MFU_TRY(counted(flop, flop));
    auto written = spread_elements(layout, call, input, weight);
    fill_forward(layout, call, written ? *written : 0, cost);
    if (!written) cost.written_bytes = std::nullopt;
    return cost;
  }
  std::uint64_t positions = MFU_TRY(output_positions(layout, call, input, kernel));
  std::uint64_t flop = times(per_position, positions);
  OperatorCost cost = MFU_TRY(counted(flop, flop));
  std::uint64_t channels = product_of(weight.first(weight.size() - spatial - 1));
  fill_forward(layout, call, times(times(size_of(input.batch), channels), positions), cost);
  return cost;
}

// conv_tbc: [t, b, in] × [k, in, out], one padding on both ends.
Result<OperatorCost> time_major(const ConvolutionLayout& layout, const Call& call) {
  Sizes input = MFU_TRY(tensor_sizes(call, layout.input, 3));
  Sizes weight = MFU_TRY(tensor_sizes(call, layout.weight, 3));
  std::int64_t padding = MFU_TRY(list_element(call, layout.padding, 0, 0, "pad"));
  std::int64_t steps = convolved_size(input[0], weight[0], 1, padding, 1);
  std::uint64_t flop = convolution_flop(input[1], weight, Sizes(&steps, 1));
  OperatorCost cost = MFU_TRY(counted(flop, flop));
  fill_forward(layout, call, times(times(size_of(steps), size_of(input[1])), size_of(weight[2])),
               cost);
  return cost;
}

// A weight [a, b, k…] belongs to a plain convolution if the output has `a` channels, and to a
// transposed one if the input has. If both have and the flag was not recorded, the number of output
// positions must be the same for both.
Result<bool> backward_transposed(const ConvolutionLayout& layout, const Call& call, Sizes weight,
                                 Sizes input, Sizes output) {
  if (layout.always_transposed) return true;
  if (layout.transposed < 0) return false;
  if (auto flag = integer_at(call, layout.transposed)) return *flag != 0;
  if (output[1] == weight[0] && input[1] != weight[0]) return false;
  if (input[1] == weight[0] && output[1] != weight[0]) return true;
  if (product_of(input.subspan(2)) == product_of(output.subspan(2))) return false;
  return not_recorded(layout.transposed, "transposed");
}

// Which gradients were asked for. That of the bias is a sum and needs no product.
struct Gradients {
  std::uint64_t count = 2;
  bool input = true, weight = true;
  Assumption assumption = Assumption::none;
};

Gradients gradients_of(const ConvolutionLayout& layout, const Call& call) {
  Gradients found{.count = layout.gradient_count};
  if (layout.gradients < 0) return found;
  bool there = static_cast<std::size_t>(layout.gradients) < call.arguments.size();
  const Argument* mask =
      there ? &call.arguments[static_cast<std::size_t>(layout.gradients)] : nullptr;
  if (mask == nullptr || mask->kind != Argument::Kind::integers || mask->integers.size() < 2) {
    found.assumption = Assumption::gradients_all;
    return found;
  }
  found.input = mask->integers[0] != 0;
  found.weight = mask->integers[1] != 0;
  found.count = (found.input ? 1u : 0u) + (found.weight ? 1u : 0u);
  return found;
}

Result<OperatorCost> backward(const ConvolutionLayout& layout, const Call& call) {
  Sizes weight = MFU_TRY(tensor_sizes(call, layout.weight, 3));
  Sizes output = MFU_TRY(tensor_sizes(call, layout.grad_output, weight.size()));
  Sizes input = output;
  if (layout.input >= 0) input = MFU_TRY(tensor_sizes(call, layout.input, weight.size()));
  if (output.size() != input.size())
    return contradiction("input and gradient differ in dimensions");
  bool transposed = MFU_TRY(backward_transposed(layout, call, weight, input, output));
  Gradients gradients = gradients_of(layout, call);
  Sizes positions = (transposed ? input : output).subspan(2);
  std::uint64_t flop = times(convolution_flop(output[0], weight, positions), gradients.count);
  OperatorCost cost = MFU_TRY(counted(flop, flop));
  cost.compute_type = type_at(call, layout.grad_output);
  cost.assumption = gradients.assumption;
  auto input_bytes = tensor_bytes(call, layout.input);
  auto weight_bytes = tensor_bytes(call, layout.weight);
  cost.read_bytes =
      sum_of({tensor_bytes(call, layout.grad_output), gradients.weight ? input_bytes : 0,
              gradients.input ? weight_bytes : 0});
  cost.written_bytes =
      sum_of({gradients.input ? input_bytes : 0, gradients.weight ? weight_bytes : 0});
  return cost;
}

}  // namespace

Result<OperatorCost> convolution_cost(const ConvolutionLayout& layout, const Call& call) {
  if (layout.time_major) return time_major(layout, call);
  if (layout.grad_output >= 0) return backward(layout, call);
  return forward(layout, call);
}

}  // namespace mfu
