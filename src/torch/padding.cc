#include "torch/padding.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "torch/mask_area.h"
#include "torch/mask_rows.h"
#include "torch/pass_tokens.h"

namespace mfu::observer {
namespace {

// Scores or a mask of one head: [sequences, queries, keys] with strides.
struct Plane {
  std::int64_t sequences = 1, queries = 1, keys = 1;
  std::int64_t by_sequence = 0, by_query = 0, by_key = 0;
};

// Counts keys that no query attends to. It starts at the last query, which sees the most under a
// causal mask.
template <class Value>
std::uint64_t unattended(const Value* data, const Plane& plane) {
  thread_local std::vector<std::uint8_t> seen;
  seen.resize(static_cast<std::size_t>(plane.keys));
  std::uint64_t sum = 0;
  for (std::int64_t a = 0; a < plane.sequences; ++a) {
    std::fill(seen.begin(), seen.end(), 0);
    std::int64_t left = plane.keys;
    for (std::int64_t b = plane.queries - 1; b >= 0 && left != 0; --b) {
      const Value* row = data + a * plane.by_sequence + b * plane.by_query;
      left = 0;
      for (std::int64_t c = 0; c < plane.keys; ++c) {
        auto place = static_cast<std::size_t>(c);
        seen[place] |= static_cast<std::uint8_t>(is_attended(row[c * plane.by_key]));
        left += 1 - seen[place];
      }
    }
    sum += static_cast<std::uint64_t>(left);
  }
  return sum;
}

std::optional<std::uint64_t> unattended(const at::Tensor& tensor, const Plane& plane) {
  switch (tensor.scalar_type()) {
    case at::kBool:
      return unattended(tensor.const_data_ptr<bool>(), plane);
    case at::kFloat:
      return unattended(tensor.const_data_ptr<float>(), plane);
    case at::kDouble:
      return unattended(tensor.const_data_ptr<double>(), plane);
    case at::kBFloat16:
      return unattended(tensor.const_data_ptr<c10::BFloat16>(), plane);
    case at::kHalf:
      return unattended(tensor.const_data_ptr<c10::Half>(), plane);
    default:
      return std::nullopt;
  }
}

bool is_open(const Thread& thread) {
  return thread.open.id != 0 && thread.pass != Pass::backward && thread.recomputing == 0;
}

template <class Integer>
std::uint64_t count_equal(const at::Tensor& tensor, std::int64_t value) {
  const auto* data = tensor.const_data_ptr<Integer>();
  bool flat = tensor.is_contiguous();
  std::int64_t rows = flat ? 1 : tensor.size(0), by_row = flat ? 0 : tensor.stride(0);
  std::int64_t step = flat ? 1 : tensor.stride(tensor.dim() - 1);
  std::int64_t columns = tensor.numel() / std::max<std::int64_t>(rows, 1);
  std::uint64_t sum = 0;
  for (std::int64_t a = 0; a < rows; ++a) {
    const Integer* row = data + a * by_row;
    for (std::int64_t b = 0; b < columns; ++b) sum += row[b * step] == value ? 1 : 0;
  }
  return sum;
}

std::optional<std::uint64_t> equal_to(const at::Tensor& tensor, std::int64_t value) {
  bool plain = tensor.is_contiguous() || tensor.dim() == 2;
  if (!tensor.is_cpu() || !plain) return std::nullopt;
  if (tensor.scalar_type() == at::kLong) return count_equal<std::int64_t>(tensor, value);
  if (tensor.scalar_type() == at::kInt) return count_equal<std::int32_t>(tensor, value);
  return std::nullopt;
}

// Whether this is the first attention of a pass over its own tokens.
bool is_self_attention(const OpenPass& open, std::uint64_t batch, std::uint64_t keys) {
  if (open.padding.looked || open.lookup_count == 0 || keys < 2) return false;
  for (std::uint32_t i = 0; i < open.lookup_count; ++i) {
    const std::uint64_t* sizes = open.lookups[i].sizes;
    bool rows = sizes[0] == batch && sizes[1] == keys, columns = sizes[1] == batch;
    if (rows || (columns && sizes[0] == keys)) return true;
  }
  return false;
}

void keep_masked(Padding& padding, const at::Tensor& tensor, const Plane& plane,
                 std::int64_t each) {
  if (!tensor.is_cpu()) {
    padding.unread = true;
    return;
  }
  std::optional<std::uint64_t> masked = unattended(tensor, plane);
  if (!masked) return;
  padding.looked = true;
  padding.masked = *masked * static_cast<std::uint64_t>(each);
  padding.keys = static_cast<std::uint64_t>(plane.sequences * plane.keys * each);
}

// Counts keys that the last query of a sequence attends to. Under a causal mask these are all that
// any of its queries attends to.
template <class Value>
void count_attended(OpenPass& open, const Value* data, const Plane& plane) {
  std::uint64_t longest = 0, all = 0;
  for (std::int64_t a = 0; a < plane.sequences; ++a) {
    const Value* row = data + a * plane.by_sequence + (plane.queries - 1) * plane.by_query;
    std::uint64_t attended = 0;
    for (std::int64_t c = 0; c < plane.keys; ++c) attended += is_attended(row[c * plane.by_key]);
    longest = std::max(longest, attended);
    all += attended;
  }
  open.scored = {.batch = static_cast<std::uint64_t>(plane.sequences),
                 .keys = static_cast<std::uint64_t>(plane.keys),
                 .columns = all,
                 .longest = longest};
}

// Done once per pass for each length of keys.
void note_attended(OpenPass& open, const at::Tensor& scores) {
  std::int64_t last = scores.dim() - 1, keys = scores.size(last), rows = scores.size(0);
  const Lookup& tokens = sequences_of(open);
  auto batch = static_cast<std::int64_t>(tokens.sizes[0]);
  bool each = scores.size(last - 1) == static_cast<std::int64_t>(tokens.sizes[1]);
  if (open.scored.keys == static_cast<std::uint64_t>(keys) || batch == 0 || !each) return;
  if (!scores.is_cpu() || rows == 0 || rows % batch != 0) return;
  Plane plane{.sequences = batch,
              .queries = scores.size(last - 1),
              .keys = keys,
              .by_sequence = scores.stride(0) * (rows / batch),
              .by_query = scores.stride(last - 1),
              .by_key = scores.stride(last)};
  if (scores.scalar_type() == at::kFloat) {
    count_attended(open, scores.const_data_ptr<float>(), plane);
  } else if (scores.scalar_type() == at::kBFloat16) {
    count_attended(open, scores.const_data_ptr<c10::BFloat16>(), plane);
  } else if (scores.scalar_type() == at::kHalf) {
    count_attended(open, scores.const_data_ptr<c10::Half>(), plane);
  } else if (scores.scalar_type() == at::kDouble) {
    count_attended(open, scores.const_data_ptr<double>(), plane);
  } else {
    return;
  }
  // The last token of a single sequence attends to all of it. If it does not, there may be several
  // sequences.
  bool several = batch == 1 && plane.queries > 1 && open.scored.longest < open.scored.keys;
  if (!several) return;
  std::optional<MaskRows> found = rows_of_scores(scores);
  if (found && found->sequences > 1) open.scored = *found;
}

}  // namespace

void note_mask(Thread& thread, const at::Tensor& mask, std::uint64_t batch,
               std::uint64_t keys) noexcept {
  OpenPass& open = thread.open;
  if (!is_open(thread) || !is_self_attention(open, batch, keys)) return;
  std::int64_t dimensions = mask.dim(), last = dimensions - 1;
  if (dimensions < 2 || dimensions > 4) return;
  if (mask.size(last) != static_cast<std::int64_t>(keys)) return;
  Plane plane{.queries = mask.size(last - 1),
              .keys = mask.size(last),
              .by_query = mask.stride(last - 1),
              .by_key = mask.stride(last)};
  if (plane.by_query == 0) plane.queries = 1;
  std::int64_t sequences = dimensions == 4 ? mask.size(0) : 1;
  if (sequences > 1 && mask.stride(0) != 0) {
    plane.sequences = sequences;
    plane.by_sequence = mask.stride(0);
  }
  keep_masked(open.padding, mask, plane, static_cast<std::int64_t>(batch) / plane.sequences);
}

void note_scores(Thread& thread, const at::Tensor& scores) noexcept {
  OpenPass& open = thread.open;
  std::int64_t dimensions = scores.dim(), last = dimensions - 1;
  if (dimensions < 3 || dimensions > 4 || !is_open(thread) || open.lookup_count == 0) return;
  std::int64_t keys = scores.size(last), rows = scores.size(0), batch = rows;
  if (thread.pass == Pass::plain) note_attended(open, scores);
  if (scores.size(last - 1) != keys) return;
  if (dimensions == 3) {  // heads and sequences are one dimension
    std::int64_t tokens = static_cast<std::int64_t>(sequences_of(open).tokens);
    if (keys == 0 || tokens % keys != 0) return;
    batch = tokens / keys;
    if (batch == 0 || rows % batch != 0) return;
  }
  if (!is_self_attention(open, static_cast<std::uint64_t>(batch), static_cast<std::uint64_t>(keys)))
    return;
  keep_masked(open.padding, scores,
              {.sequences = batch,
               .queries = keys,
               .keys = keys,
               .by_sequence = scores.stride(0) * (rows / batch),
               .by_query = scores.stride(last - 1),
               .by_key = scores.stride(last)},
              1);
}

void note_targets(Thread& thread, const at::Tensor& targets, std::int64_t ignored) noexcept {
  if (!is_open(thread)) return;
  OpenPass& open = thread.open;
  open.met_loss = true;
  if (open.lookup_count == 0) return;
  if (std::optional<std::uint64_t> found = equal_to(targets, ignored)) {
    open.padding.labels += static_cast<std::uint64_t>(targets.numel());
    open.padding.ignored += *found;
  } else if (!targets.is_cpu() && targets.numel() > 1) {
    open.padding.unread = true;
  }
}

void note_labels(Thread& thread, const at::Tensor& labels) noexcept {
  if (!is_open(thread) || thread.open.lookup_count == 0) return;
  Padding& padding = thread.open.padding;
  auto count = static_cast<std::uint64_t>(labels.numel());
  if (count < padding.given) return;
  if (std::optional<std::uint64_t> found = equal_to(labels, kIgnoredLabel)) {
    padding.given = count;
    padding.left_out = *found;
  } else if (!labels.is_cpu()) {
    padding.unread = true;
  }
}

}  // namespace mfu::observer
