// Matrix multiplies. A step calls these most, so their formulas are inline here. A test checks that
// they equal those of ops/.
#include "torch/kernel.h"

#include <ATen/ops/_int_mm_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/addmv_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/dot_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mv_ops.h>
#include <ATen/ops/vdot_ops.h>

#include <algorithm>
#include <tuple>

namespace mfu::observer {
namespace {

template <std::size_t length>
struct Name {
  constexpr Name(const char (&text)[length]) { std::copy_n(text, length, value); }
  char value[length];
};

// Computed from sizes that are at hand, because asking a tensor for its element count is a call
// into torch.
inline std::uint64_t product(const std::int64_t* sizes, std::size_t count) {
  std::uint64_t result = 1;
  for (std::size_t i = 0; i < count; ++i) result *= static_cast<std::uint64_t>(sizes[i]);
  return result;
}
// The same if the number of dimensions is known at compile time: no loop is left.
template <std::size_t count>
[[gnu::always_inline]] inline std::uint64_t product(const std::int64_t* sizes) {
  std::uint64_t result = 1;
  if constexpr (count > 0) result = static_cast<std::uint64_t>(sizes[0]);
  if constexpr (count > 1) result *= static_cast<std::uint64_t>(sizes[1]);
  if constexpr (count > 2) result *= static_cast<std::uint64_t>(sizes[2]);
  return result;
}

enum class Kind : std::uint8_t { vectors, vector, matrix, batch };  // of the right operand

// Arguments `first` and `first` + 1 are the matrices; what is added comes before them. FLOPs are 2
// × the elements of the left one × the columns of the right one. The call has succeeded, so the
// operands have the right dimensions.
template <Name name, std::size_t first, Kind kind>
struct Product {
  static constexpr std::size_t kLeft = kind == Kind::vectors ? 1 : kind == Kind::batch ? 3 : 2;
  static constexpr std::size_t kRight = kind == Kind::matrix ? 2 : kind == Kind::batch ? 3 : 1;

  static unsigned odd_id() {
    static const unsigned kId = operator_id(name.value, "a sparse or nested operand");
    return kId;
  }

  // Flattened by force: torch's accessors are small, but otherwise the compiler calls them in
  // libc10.
  template <class... Arguments>
  [[gnu::flatten]] static void count(Thread& thread, const Arguments&... arguments) {
    static const unsigned kId = operator_id(name.value);
    auto all = std::forward_as_tuple(arguments...);
    const at::Tensor& left = std::get<first>(all);
    const at::Tensor& right = std::get<first + 1>(all);
    const std::int64_t* a = left.sizes().data();
    const std::int64_t* b = right.sizes().data();
    std::uint64_t columns = kRight > 1 ? product<1>(b + kRight - 1) : 1;
    std::uint64_t rows = product<kLeft - 1>(a);
    std::uint64_t left_count = rows * product<1>(a + kLeft - 1);
    std::uint64_t flop = 2 * left_count * columns;
    std::uint64_t right_count = product<kRight>(b);
    std::uint64_t elements = left_count + right_count + rows * columns;
    if constexpr (first == 1) {
      c10::IntArrayRef added = std::get<0>(all).sizes();
      std::uint64_t added_count = product(added.data(), added.size());
      elements += added_count;
      if (added.size() == 1) right_count += added_count;  // a bias is read with its weight
    }
    std::uint64_t width = left.element_size();
    const c10::TensorImpl& weight = *right.unsafeGetTensorImpl();
    constexpr bool kBatched = kind == Kind::batch, kSmall = kRight < 2;
    count_call(thread, {.operator_id = kId,
                        .type_id = type_id_of(left.scalar_type()),
                        .hardware_flop = flop,
                        .model_flop = flop,
                        .bytes = elements * width,
                        .leading = a[0],
                        .device = number_of(left.device()),
                        .weight = kSmall ? nullptr : weight.unsafe_storage().unsafeGetStorageImpl(),
                        .offset = weight.storage_offset(),
                        .parameter = &right,
                        .rows = kBatched ? a[1] : 0,
                        .batched = kBatched,
                        .small = kSmall});
    if constexpr (kBatched) {
      note_batched(thread, {.batch = product<1>(a),
                            .queries = product<1>(a + 1),
                            .keys = columns,
                            .inner = product<1>(a + 2),
                            .element_bytes = width,
                            .type = type_id_of(left.scalar_type()),
                            .right = &right});
    } else if constexpr (!kSmall) {
      thread.columns = columns;
      thread.product_rows = rows;
      thread.product_inner = product<1>(a + kLeft - 1);
      if (columns == thread.open.head_columns) thread.open.headed = true;
      thread.open.bytes.weight_read += right_count * width;
    }
  }
};

}  // namespace

void register_matmuls(torch::Library& aten, Taken& taken) {
  using namespace at::_ops;
  watch<mm, Product<"aten::mm", 0, Kind::matrix>>(aten, taken);
  watch<mm_out, Product<"aten::mm", 0, Kind::matrix>>(aten, taken);
  watch<bmm, Product<"aten::bmm", 0, Kind::batch>>(aten, taken);
  watch<bmm_out, Product<"aten::bmm", 0, Kind::batch>>(aten, taken);
  watch<addmm, Product<"aten::addmm", 1, Kind::matrix>>(aten, taken);
  watch<addmm_, Product<"aten::addmm", 1, Kind::matrix>>(aten, taken);
  watch<addmm_out, Product<"aten::addmm", 1, Kind::matrix>>(aten, taken);
  watch<baddbmm, Product<"aten::baddbmm", 1, Kind::batch>>(aten, taken);
  watch<baddbmm_, Product<"aten::baddbmm", 1, Kind::batch>>(aten, taken);
  watch<baddbmm_out, Product<"aten::baddbmm", 1, Kind::batch>>(aten, taken);
  watch<mv, Product<"aten::mv", 0, Kind::vector>>(aten, taken);
  watch<mv_out, Product<"aten::mv", 0, Kind::vector>>(aten, taken);
  watch<addmv, Product<"aten::addmv", 1, Kind::vector>>(aten, taken);
  watch<addmv_, Product<"aten::addmv", 1, Kind::vector>>(aten, taken);
  watch<addmv_out, Product<"aten::addmv", 1, Kind::vector>>(aten, taken);
  watch<dot, Product<"aten::dot", 0, Kind::vectors>>(aten, taken);
  watch<dot_out, Product<"aten::dot", 0, Kind::vectors>>(aten, taken);
  watch<vdot, Product<"aten::vdot", 0, Kind::vectors>>(aten, taken);
  watch<vdot_out, Product<"aten::vdot", 0, Kind::vectors>>(aten, taken);
  watch<_int_mm, Product<"aten::_int_mm", 0, Kind::matrix>>(aten, taken);
  watch<_int_mm_out, Product<"aten::_int_mm", 0, Kind::matrix>>(aten, taken);
}

}  // namespace mfu::observer
