// Operators that make no matrix product: tables and Fourier transforms.
#include <cmath>

#include "ops/formulas.h"
#include "ops/reading.h"

namespace mfu {

Result<OperatorCost> lookup_cost(const LookupLayout& layout, const Call& call) {
  Sizes indices = MFU_TRY(tensor_sizes(call, layout.indices));
  bool backward = layout.gradient >= 0;
  Sizes rows = MFU_TRY(tensor_sizes(call, backward ? layout.gradient : layout.table, 1));
  ElementType type = type_at(call, backward ? layout.gradient : layout.table);
  std::uint64_t looked_up = times(product_of(indices), size_of(rows.back()));
  OperatorCost cost;
  cost.compute_type = type;
  cost.read_bytes = sum_of({tensor_bytes(call, layout.indices), bytes_for(looked_up, type)});
  cost.written_bytes = bytes_for(looked_up, type);
  if (backward && layout.rows >= 0) {
    std::int64_t count = MFU_TRY(integer_needed(call, layout.rows, "num_weights"));
    cost.written_bytes = bytes_for(times(size_of(count), size_of(rows.back())), type);
  }
  return cost;
}

// 5·N·log2 N real operations for a complex transform of N points, and half of that if one side is
// real. FFTW and cuFFT use this to report rates, whatever the algorithm really does.
Result<OperatorCost> fourier_cost(const FourierLayout& layout, const Call& call) {
  Sizes sizes = MFU_TRY(tensor_sizes(call, 0, 1));
  bool listed = call.arguments.size() > 1 && call.arguments[1].kind == Argument::Kind::integers;
  if (!listed) return not_recorded(1, "dim");
  auto rank = static_cast<std::int64_t>(sizes.size());
  double points = 1;
  double elements = static_cast<double>(product_of(sizes));
  Sizes dims = call.arguments[1].integers;
  for (std::int64_t dim : dims) {
    std::int64_t index = dim < 0 ? dim + rank : dim;
    if (index < 0 || index >= rank) return contradiction("a dimension that is not there");
    std::int64_t size = sizes[static_cast<std::size_t>(index)];
    if (layout.last_size >= 0 && dim == dims.back() && size > 0) {
      std::int64_t real = MFU_TRY(integer_needed(call, layout.last_size, "last_dim_size"));
      elements = elements / static_cast<double>(size) * static_cast<double>(real);
      size = real;
    }
    points *= static_cast<double>(size);
  }
  OperatorCost cost;
  cost.compute_type = type_at(call, 0);
  if (points > 1) {
    double flop = (layout.real ? 2.5 : 5.0) * elements * std::log2(points);
    if (!(flop < 9e18)) return contradiction("its sizes multiply to more than 2^63 FLOP");
    cost.estimated_flop = static_cast<std::uint64_t>(std::llround(flop));
  }
  cost.read_bytes = tensor_bytes(call, 0);
  return cost;
}

}  // namespace mfu
