#include "ops/formulas.h"
#include "ops/reading.h"

namespace mfu {
namespace {

// The elements of all weight matrices. Layer 0 reads the input; the others read both directions of
// the layer below. An LSTM has 4 gates, a GRU 3, a plain RNN 1. A projection makes the output of a
// layer smaller.
Result<std::uint64_t> weight_elements(const RecurrentLayout& layout, const Call& call,
                                      std::int64_t input_width) {
  constexpr std::int64_t kGates[] = {1, 1, 4, 3};
  std::int64_t mode = MFU_TRY(integer_needed(call, layout.mode, "mode"));
  std::int64_t hidden = MFU_TRY(integer_needed(call, layout.hidden, "hidden_size"));
  std::int64_t layers = MFU_TRY(integer_needed(call, layout.layers, "num_layers"));
  std::int64_t both = MFU_TRY(integer_needed(call, layout.bidirectional, "bidirectional"));
  std::int64_t projection = 0;
  if (layout.projection >= 0) {
    projection = MFU_TRY(integer_needed(call, layout.projection, "proj_size"));
  }
  if (mode >= static_cast<std::int64_t>(std::size(kGates))) return contradiction("an unknown mode");
  std::uint64_t gates = times(size_of(kGates[mode]), size_of(hidden));
  std::uint64_t handed_on = size_of(projection > 0 ? projection : hidden);
  std::uint64_t directions = both != 0 ? 2 : 1;
  std::uint64_t own = times(gates, handed_on);
  if (projection > 0) own = plus(own, times(size_of(hidden), size_of(projection)));
  std::uint64_t first = plus(times(gates, size_of(input_width)), own);
  std::uint64_t further = plus(times(gates, times(directions, handed_on)), own);
  if (layers == 0) return std::uint64_t{0};
  return times(directions, plus(first, times(further, size_of(layers - 1))));
}

}  // namespace

// Every token multiplies every weight once. The gradient by the data does so once more, and the
// gradient by the weights too.
Result<OperatorCost> recurrent_cost(const RecurrentLayout& layout, const Call& call) {
  Sizes input = MFU_TRY(tensor_sizes(call, layout.input, 2));
  std::uint64_t tokens = product_of(input.first(input.size() - 1));
  std::uint64_t elements = 0;
  if (layout.weights >= 0) {
    Sizes by_input = MFU_TRY(tensor_sizes(call, layout.weights));
    Sizes by_state = MFU_TRY(tensor_sizes(call, static_cast<Position>(layout.weights + 1)));
    elements = plus(product_of(by_input), product_of(by_state));
  } else {
    elements = MFU_TRY(weight_elements(layout, call, input.back()));
  }
  std::uint64_t passes = layout.backward ? 2 : 1;
  OperatorCost cost;
  if (layout.gradients >= 0) {
    const Argument* mask = static_cast<std::size_t>(layout.gradients) < call.arguments.size()
                               ? &call.arguments[static_cast<std::size_t>(layout.gradients)]
                               : nullptr;
    bool known =
        mask != nullptr && mask->kind == Argument::Kind::integers && mask->integers.size() > 3;
    if (known && mask->integers[3] == 0) passes = 1;
    if (!known) cost.assumption = Assumption::gradients_all;
  }
  std::uint64_t flop = times(times(times(tokens, elements), 2), passes);
  Assumption assumption = cost.assumption;
  cost = MFU_TRY(counted(flop, flop));
  cost.assumption = assumption;
  cost.compute_type = type_at(call, layout.input);
  cost.read_bytes =
      sum_of({tensor_bytes(call, layout.input), bytes_for(elements, cost.compute_type)});
  return cost;
}

}  // namespace mfu
