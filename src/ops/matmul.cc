#include <algorithm>

#include "ops/formulas.h"
#include "ops/reading.h"

namespace mfu {
namespace {

using Form = MatmulLayout::Form;

// [batch, m, k] × [batch, k, n].
struct Problem {
  std::int64_t batch = 1, m = 1, k = 1, n = 1;
  Assumption assumption = Assumption::none;
};

Result<Problem> matrices(Sizes left, Sizes right) {
  if (left.size() != 2 || right.size() != 2) return contradiction("both sides must be matrices");
  if (left[1] != right[0]) return contradiction("inner sizes differ");
  return Problem{.m = left[0], .k = left[1], .n = right[1]};
}

Result<Problem> batched(Sizes left, Sizes right) {
  if (left.size() != 3 || right.size() != 3) {
    return contradiction("both sides must be batches of matrices");
  }
  if (left[0] != right[0] || left[2] != right[1])
    return contradiction("batches or inner sizes differ");
  return Problem{.batch = left[0], .m = left[1], .k = left[2], .n = right[2]};
}

// Turns a product that may have saturated into a size that saturates again when multiplied.
std::int64_t bounded(std::uint64_t count) {
  return static_cast<std::int64_t>(std::min(count, kMostFlop >> 1));
}

// Takes the rows of a […, k] operand. A tensor without elements has no rows.
Result<Problem> rows_by_width(Sizes left, std::int64_t n) {
  std::int64_t k = left.back();
  std::int64_t rows = bounded(product_of(left.first(left.size() - 1)));
  return Problem{.m = rows, .k = k, .n = n};
}

// The weight may be [n, k], [k, n] or packed. Its element count is always n·k.
Result<Problem> linear(Sizes left, Sizes weight) {
  std::int64_t k = left.back();
  std::uint64_t elements = product_of(weight);
  if (k == 0) return rows_by_width(left, 0);
  if (elements % size_of(k) != 0) return contradiction("the weight does not fit the input's width");
  return rows_by_width(left, bounded(elements / size_of(k)));
}

// torch.matmul: a vector is a row on the left and a column on the right; batches broadcast.
Result<Problem> broadcast(Sizes left, Sizes right) {
  if (left.empty() || right.empty()) return contradiction("a side has no dimensions");
  Problem problem{.k = left.back()};
  if (left.size() > 1) problem.m = left[left.size() - 2];
  if (right.size() > 1) problem.n = right.back();
  std::int64_t inner = right.size() > 1 ? right[right.size() - 2] : right[0];
  if (inner != problem.k) return contradiction("inner sizes differ");
  Sizes a = left.first(left.size() > 2 ? left.size() - 2 : 0);
  Sizes b = right.first(right.size() > 2 ? right.size() - 2 : 0);
  std::uint64_t batch = 1;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    std::int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    std::int64_t from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) return contradiction("batches differ");
    batch = times(batch, size_of(from_a == 1 ? from_b : from_a));
  }
  problem.batch = bounded(batch);
  return problem;
}

// _grouped_mm: the rows (or the columns, or the inner dimension) of a 2-d side belong to groups,
// and a tensor holds where each group ends. We count as if every row belonged to some group. That
// is so unless the caller padded at the end.
Result<Problem> grouped(Sizes left, Sizes right) {
  if (left.size() == 3 && right.size() == 3) return batched(left, right);
  bool flat_left = left.size() == 2;
  bool flat_right = right.size() == 2;
  if ((!flat_left && left.size() != 3) || (!flat_right && right.size() != 3)) {
    return contradiction("a side is neither a matrix nor a batch of them");
  }
  if (left.back() != right[right.size() - 2]) return contradiction("inner sizes differ");
  return Problem{.m = left[left.size() - 2],
                 .k = left.back(),
                 .n = right.back(),
                 .assumption = Assumption::groups_full};
}

// TransformerEngine's GEMM: A is [n, k] when its flag is set, else [k, n]; B is [k, m] when its
// flag is set, else [m, k].
Result<Problem> flagged(const MatmulLayout& layout, const Call& call, Sizes left, Sizes right) {
  auto flag_of = [](Position side) { return static_cast<Position>(side + 4); };
  std::int64_t first = MFU_TRY(integer_needed(call, flag_of(layout.left), "transpose"));
  std::int64_t second = MFU_TRY(integer_needed(call, flag_of(layout.right), "transpose"));
  if (left.size() != 2 || right.size() != 2) return contradiction("both sides must be matrices");
  std::int64_t k = first != 0 ? left[1] : left[0];
  if (k != (second != 0 ? right[0] : right[1])) return contradiction("inner sizes differ");
  return Problem{
      .m = second != 0 ? right[1] : right[0], .k = k, .n = first != 0 ? left[0] : left[1]};
}

// The weight is not a plain tensor, so its size comes from another argument or from the result.
Result<Problem> packed(const MatmulLayout& layout, const Call& call, Sizes left) {
  if (layout.form == Form::scaled) {
    Sizes scales = MFU_TRY(tensor_sizes(call, layout.extra, 2));
    return rows_by_width(left, scales[1]);
  }
  if (layout.form == Form::features) {
    auto next = static_cast<Position>(layout.extra + 1);
    std::int64_t k = MFU_TRY(integer_needed(call, layout.extra, "in_features"));
    std::int64_t n = MFU_TRY(integer_needed(call, next, "out_features"));
    if (left.back() != k) return contradiction("the input is not in_features wide");
    return rows_by_width(left, n);
  }
  if (layout.extra >= 0) {
    Sizes output = MFU_TRY(tensor_sizes(call, layout.extra, 1));
    return rows_by_width(left, output.back());
  }
  bool told = call.result.kind == Argument::Kind::tensor && !call.result.integers.empty();
  if (!told) {
    return fail(ErrorCode::unsupported, "its weight is packed: only the result tells its size");
  }
  return rows_by_width(left, call.result.integers.back());
}

// 2:4 sparsity keeps two of four weights. The compressed operand is half as wide, and only its
// products are computed.
Result<Problem> half_kept(Form form, Sizes left, Sizes right) {
  if (left.size() < 2 || right.size() != 2) return contradiction("both sides must be matrices");
  if (form == Form::sparse) return Problem{.m = left[0], .k = left.back(), .n = right[1]};
  std::int64_t rows = bounded(product_of(left.first(left.size() - 1)));
  return Problem{.m = rows, .k = right[1], .n = right[0]};
}

// The products of two lists of matrices, [m, k] × [n, k] each, as one product with a long
// dimension.
Result<Problem> listed(const MatmulLayout& layout, const Call& call) {
  auto pairs_at = [&](Position place) {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): a place that is not there is below 0
    auto index = static_cast<std::size_t>(place);
    bool there =
        index < call.arguments.size() && call.arguments[index].kind == Argument::Kind::tensor_list;
    return there ? call.arguments[index].integers : std::span<const std::int64_t>{};
  };
  std::span<const std::int64_t> left = pairs_at(layout.left), right = pairs_at(layout.right);
  if (left.empty() || left.size() != right.size() || left.size() % 2 != 0) {
    return fail(ErrorCode::unsupported, "the sizes in its lists were not recorded");
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < left.size(); i += 2) {
    if (left[i + 1] != right[i + 1]) return contradiction("inner sizes differ");
    sum = plus(sum, times(times(size_of(left[i]), size_of(left[i + 1])), size_of(right[i])));
  }
  return Problem{.m = bounded(sum)};
}

Result<Problem> problem_of(const MatmulLayout& layout, const Call& call) {
  if (layout.form == Form::listed) return listed(layout, call);
  Sizes left = MFU_TRY(tensor_sizes(call, layout.left, 1));
  bool opaque =
      layout.form == Form::scaled || layout.form == Form::features || layout.form == Form::opaque;
  if (opaque) return packed(layout, call, left);
  Sizes right = MFU_TRY(tensor_sizes(call, layout.right, 1));
  switch (layout.form) {
    case Form::matrices:
      return matrices(left, right);
    case Form::batched:
      return batched(left, right);
    case Form::vector:
      if (left.size() != 2 || right.size() != 1 || left[1] != right[0]) {
        return contradiction("the vector does not fit the matrix");
      }
      return Problem{.m = left[0], .k = left[1]};
    case Form::dot:
      if (left.size() != 1 || left[0] != right[0]) return contradiction("the vectors differ");
      return Problem{.k = left[0]};
    case Form::outer:
      return Problem{.m = left[0], .n = right[0]};
    case Form::linear:
      return linear(left, right);
    case Form::broadcast:
      return broadcast(left, right);
    case Form::grouped:
      return grouped(left, right);
    case Form::flagged:
      return flagged(layout, call, left, right);
    default:
      return half_kept(layout.form, left, right);
  }
}

ElementType result_type(const MatmulLayout& layout, const Call& call) {
  if (call.result.kind == Argument::Kind::tensor) return call.result.type;
  if (layout.result != ElementType::unknown) return layout.result;
  if (auto code = integer_at(call, layout.result_type)) return element_type_of_torch(*code);
  return type_at(call, layout.left);
}

}  // namespace

Result<ProductSizes> matmul_sizes(const MatmulLayout& layout, const Call& call) {
  Problem problem = MFU_TRY(problem_of(layout, call));
  bool plain = layout.form != Form::listed && problem.batch == 1;
  if (!plain) return fail(ErrorCode::unsupported, "many products");
  return ProductSizes{
      .rows = size_of(problem.m), .inner = size_of(problem.k), .columns = size_of(problem.n)};
}

Result<OperatorCost> matmul_cost(const MatmulLayout& layout, const Call& call) {
  Problem problem = MFU_TRY(problem_of(layout, call));
  ElementType type = layout.form == Form::listed
                         ? call.arguments[static_cast<std::size_t>(layout.left)].type
                         : type_at(call, layout.left);
  // One element holds two 4-bit numbers, so the inner dimension is twice as long as its size says.
  if (type == ElementType::fp4) problem.k *= 2;
  std::uint64_t flop = batched_matmul_flop(problem.batch, problem.m, problem.k, problem.n);
  OperatorCost cost = MFU_TRY(counted(flop, flop));
  cost.compute_type = layout.compute != ElementType::unknown ? layout.compute : type;
  if (cost.compute_type == ElementType::uint8) cost.compute_type = ElementType::int8;
  cost.assumption = problem.assumption;
  cost.read_bytes = sum_of({tensor_bytes(call, layout.left), tensor_bytes(call, layout.right),
                            tensor_bytes(call, layout.added)});
  std::uint64_t written =
      times(times(size_of(problem.batch), size_of(problem.m)), size_of(problem.n));
  cost.written_bytes = bytes_for(written, result_type(layout, call));
  if (layout.form == Form::opaque || layout.form == Form::listed) cost.read_bytes = std::nullopt;
  if (layout.form == Form::listed) cost.written_bytes = std::nullopt;
  return cost;
}

}  // namespace mfu
