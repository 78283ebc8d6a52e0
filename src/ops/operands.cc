// Which operand of an operator is a weight, and the sizes of an attention's keys and values. The
// memory traffic of inference follows from these.
#include <algorithm>

#include "ops/reading.h"

namespace mfu {
namespace {

const OperatorFormula* formula_for(const Operator& op, std::size_t arguments) {
  const OperatorFormula* formula = op.formula;
  bool other = formula != nullptr && formula->other != nullptr && arguments == formula->other_count;
  return other ? formula->other : formula;
}

// The number of groups that have rows, because only their matrices are read. If the offsets are not
// known, there can be at most one group per row.
std::uint64_t groups_used(const Call& call, Position offsets, std::uint64_t groups,
                          std::uint64_t rows) {
  const Argument* ends = tensor_at(call, offsets);
  if (ends == nullptr || ends->values.empty()) return std::min(groups, rows);
  std::uint64_t used = 0;
  std::int64_t before = 0;
  for (std::int64_t end : ends->values) {
    if (end > before) ++used;
    before = std::max(before, end);
  }
  return std::min(groups, used);
}

std::optional<std::uint64_t> matmul_weight(const MatmulLayout& layout, const Call& call) {
  using Form = MatmulLayout::Form;
  const Argument* left = tensor_at(call, layout.left);
  const Argument* right = tensor_at(call, layout.right);
  // The weight is packed but has the type of the input. The output tells its width.
  if (left != nullptr && layout.form == Form::opaque && layout.extra >= 0) {
    Result<ProductSizes> sizes = matmul_sizes(layout, call);
    if (!sizes.has_value()) return std::nullopt;
    return sum_of(
        {bytes_for(sizes->inner * sizes->columns, left->type), tensor_bytes(call, layout.added)});
  }
  if (left == nullptr || right == nullptr) return std::nullopt;
  std::optional<std::uint64_t> bytes = tensor_bytes(call, layout.right);
  switch (layout.form) {
    case Form::linear:
    case Form::matrices:
    case Form::sparse_linear:
    case Form::scaled:
      return bytes;
    case Form::grouped: {
      constexpr Position kOffsets = 2;
      if (!bytes || right->integers.size() != 3 || left->integers.size() != 2) return std::nullopt;
      auto groups = static_cast<std::uint64_t>(std::max<std::int64_t>(right->integers[0], 1));
      auto rows = static_cast<std::uint64_t>(left->integers[0]);
      return *bytes / groups * groups_used(call, kOffsets, groups, rows);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::uint64_t> weight_bytes(const Operator& op, std::span<const Argument> arguments) {
  const OperatorFormula* formula = formula_for(op, arguments.size());
  if (formula == nullptr) return std::nullopt;
  Argument none;
  Call call{arguments, none};
  if (const auto* matmul = std::get_if<MatmulLayout>(&formula->layout)) {
    return matmul_weight(*matmul, call);
  }
  if (const auto* convolution = std::get_if<ConvolutionLayout>(&formula->layout)) {
    if (convolution->grad_output >= 0) return std::nullopt;
    return tensor_bytes(call, convolution->weight);
  }
  return std::nullopt;
}

std::optional<AttendedSizes> attended_sizes(const Operator& op,
                                            std::span<const Argument> arguments) {
  const OperatorFormula* formula = formula_for(op, arguments.size());
  if (formula == nullptr) return std::nullopt;
  const auto* layout = std::get_if<AttentionLayout>(&formula->layout);
  if (layout == nullptr || layout->backward) return std::nullopt;
  Argument none;
  Call call{arguments, none};
  const Argument* query = tensor_at(call, layout->query);
  const Argument* key = tensor_at(call, static_cast<Position>(layout->query + 1));
  const Argument* value = tensor_at(call, static_cast<Position>(layout->query + 2));
  if (query == nullptr || key == nullptr || value == nullptr) return std::nullopt;
  Sizes q = query->integers, k = key->integers, v = value->integers;
  if (q.size() != 4 || k.size() != 4 || v.size() != 4) return std::nullopt;
  std::optional<std::uint32_t> width = bytes_of(key->type);
  if (!width) return std::nullopt;
  std::size_t heads = layout->heads_second ? 1 : 2, rows = layout->heads_second ? 2 : 1;
  auto size = [](std::int64_t each) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(each, 0));
  };
  return AttendedSizes{.batch = size(q[0]),
                       .queries = size(q[rows]),
                       .keys = size(k[rows]),
                       .query_heads = size(q[heads]),
                       .key_heads = size(k[heads]),
                       .key_width = size(k[3]),
                       .value_width = size(v[3]),
                       .element_bytes = *width};
}

std::optional<ProductSizes> product_sizes(const Operator& op, std::span<const Argument> arguments,
                                          const Argument& result) {
  const OperatorFormula* formula = formula_for(op, arguments.size());
  const auto* layout = formula != nullptr ? std::get_if<MatmulLayout>(&formula->layout) : nullptr;
  if (layout == nullptr) return std::nullopt;
  Result<ProductSizes> sizes = matmul_sizes(*layout, {arguments, result});
  return sizes.has_value() ? std::optional(*sizes) : std::nullopt;
}

std::optional<PagedSizes> paged_sizes(const Operator& op, std::span<const Argument> arguments) {
  const OperatorFormula* formula = formula_for(op, arguments.size());
  const auto* layout =
      formula != nullptr ? std::get_if<AttentionLayout>(&formula->layout) : nullptr;
  if (layout == nullptr || !layout->paged) return std::nullopt;
  Argument none;
  Result<PagedSizes> sizes = sizes_of_paged(*layout, {arguments, none});
  return sizes.has_value() ? std::optional(*sizes) : std::nullopt;
}

}  // namespace mfu
