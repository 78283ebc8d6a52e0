#include "torch/mask_rows.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <vector>

namespace mfu::observer {
namespace {

constexpr std::int64_t kMostLooked = std::int64_t{1} << 24;
constexpr double kBelow = -1e4;  // is what stands for minus infinity

struct Seen {
  // A weak reference: nothing else gets this address as long as it is held.
  c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
  const c10::StorageImpl* address = nullptr;
  std::uint64_t pass = 0;
  std::int64_t offset = 0, elements = 0;
  std::uint64_t area = 0;
  MaskRows rows;
};

thread_local std::array<Seen, 4> seen_masks;
thread_local std::size_t next_seen = 0;
thread_local std::vector<bool> attended;

// [batch, rows, keys] of a mask with up to four dimensions. Of its heads, the first is used.
struct View {
  std::int64_t sizes[3] = {1, 1, 1}, strides[3] = {};
};

std::optional<View> view_of(const at::Tensor& mask) {
  std::int64_t dimensions = mask.dim();
  if (dimensions < 2 || dimensions > 4) return std::nullopt;
  View view;
  auto take = [&](int to, std::int64_t from) {
    view.strides[to] = mask.stride(from);
    view.sizes[to] = mask.stride(from) == 0 && to != 2 ? 1 : mask.size(from);
  };
  take(2, dimensions - 1);
  take(1, dimensions - 2);
  if (dimensions == 4) take(0, 0);
  return view;
}

struct Group {
  std::uint64_t rows = 0, area = 0, columns = 0;
};

void close_group(MaskRows& result, const Group& group) {
  if (group.rows == 0) return;
  ++result.sequences;
  if (group.rows != 1 || group.columns < 2) return;
  result.decode_rows += 1;
  result.decode_area += group.area;
  result.decode_columns += group.columns;
}

template <class Value, class Attends>
MaskRows look(const Value* data, const View& view, const Attends& attends) {
  MaskRows result{.batch = static_cast<std::uint64_t>(view.sizes[0]),
                  .rows = static_cast<std::uint64_t>(view.sizes[1]),
                  .keys = static_cast<std::uint64_t>(view.sizes[2])};
  for (std::int64_t batch = 0; batch < view.sizes[0]; ++batch) {
    attended.assign(static_cast<std::size_t>(view.sizes[2]), false);
    Group group;
    std::int64_t last = -1;  // the last key of the row before
    for (std::int64_t row = 0; row < view.sizes[1]; ++row) {
      const Value* keys = data + batch * view.strides[0] + row * view.strides[1];
      std::uint64_t area = 0;
      std::int64_t newest = -1;
      for (std::int64_t key = 0; key < view.sizes[2]; ++key) {
        if (!attends(keys[key * view.strides[2]])) continue;
        ++area;
        newest = key;
        attended[static_cast<std::size_t>(key)] = true;
      }
      if (batch != 0) continue;
      result.area += area;
      if (area == 0) ++result.empty_rows;
      bool follows = last >= 0 && area != 0 && attends(keys[last * view.strides[2]]);
      if (!follows) {
        close_group(result, group);
        group = {};
      }
      if (area != 0) group = {group.rows + 1, group.area + area, std::max(group.columns, area)};
      last = newest;
    }
    if (batch == 0) close_group(result, group);
    auto columns = static_cast<std::uint64_t>(std::count(attended.begin(), attended.end(), true));
    result.columns += columns;
    result.longest = std::max(result.longest, columns);
  }
  if (result.keys <= result.rows) {  // no key was there before
    result.decode_rows = result.decode_area = result.decode_columns = 0;
  }
  return result;
}

template <class Value>
MaskRows look_at_numbers(const at::Tensor& mask, const View& view) {
  return look(mask.const_data_ptr<Value>(), view,
              [](Value value) { return static_cast<double>(value) > kBelow; });
}

std::optional<MaskRows> read_rows(const at::Tensor& mask, const View& view) {
  switch (mask.scalar_type()) {
    case at::kBool:
      return look(mask.const_data_ptr<bool>(), view, [](bool value) { return value; });
    case at::kFloat:
      return look_at_numbers<float>(mask, view);
    case at::kDouble:
      return look_at_numbers<double>(mask, view);
    case at::kBFloat16:
      return look_at_numbers<c10::BFloat16>(mask, view);
    case at::kHalf:
      return look_at_numbers<c10::Half>(mask, view);
    default:
      return std::nullopt;
  }
}

// Empty if the values cannot be read here, or are too many.
std::optional<MaskRows> rows_now(const at::Tensor& mask) {
  std::optional<View> view = view_of(mask);
  if (!view || view->sizes[0] * view->sizes[1] * view->sizes[2] > kMostLooked) return std::nullopt;
  return read_rows(mask, *view);
}

}  // namespace

std::optional<MaskRows> rows_of_scores(const at::Tensor& scores) noexcept {
  try {
    return rows_now(scores);
  } catch (...) {
    return std::nullopt;
  }
}

std::optional<MaskRows> rows_of_mask(const at::Tensor& mask, std::uint64_t pass,
                                     std::uint64_t area) noexcept {
  try {
    if (!mask.defined() || !mask.is_cpu() || mask.numel() == 0) return std::nullopt;
    const c10::Storage& storage = mask.unsafeGetTensorImpl()->unsafe_storage();
    const c10::StorageImpl* address = storage.unsafeGetStorageImpl();
    std::int64_t offset = mask.storage_offset(), elements = mask.numel();
    for (const Seen& each : seen_masks) {
      bool same =
          (each.address == address && each.offset == offset) || (area != 0 && each.area == area);
      if (same && each.pass == pass && each.elements == elements) {
        return each.rows;
      }
    }
    std::optional<MaskRows> rows = rows_now(mask);
    if (!rows) return std::nullopt;
    seen_masks[next_seen++ % seen_masks.size()] = {
        c10::weak_intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl()),
        address,
        pass,
        offset,
        elements,
        area,
        *rows};
    return rows;
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace mfu::observer
