#include <algorithm>

#include "ops/formulas.h"
#include "ops/reading.h"

namespace mfu {
namespace {

struct Tensors {
  Sizes query, key, value;
};

// What a call tells about its mask. If a flag was not recorded, all pairs count.
struct Seen {
  AttentionMask mask;
  Assumption assumption = Assumption::none;
};

bool is_tensor(const Call& call, Position position) {
  return tensor_at(call, position) != nullptr;
}

std::optional<std::int64_t> window_at(const Call& call, Position position) {
  bool there = position >= 0 && static_cast<std::size_t>(position) < call.arguments.size();
  if (!there) return -1;
  const Argument& argument = call.arguments[static_cast<std::size_t>(position)];
  if (argument.kind == Argument::Kind::absent) return -1;
  auto value = integer_at(call, position);
  if (!value) return std::nullopt;
  // A window that is wider than any sequence limits nothing.
  return *value < 0 || *value > (std::int64_t{1} << 40) ? -1 : *value;
}

// The window is either two integers in a row or one list of two.
void read_windows(const AttentionLayout& layout, const Call& call, Seen& seen) {
  std::optional<std::int64_t> left = -1, right = -1;
  if (layout.window_left >= 0) {
    left = window_at(call, layout.window_left);
    right = window_at(call, static_cast<Position>(layout.window_left + 1));
  } else if (layout.window_pair >= 0 &&
             static_cast<std::size_t>(layout.window_pair) < call.arguments.size()) {
    const Argument& pair = call.arguments[static_cast<std::size_t>(layout.window_pair)];
    if (pair.kind == Argument::Kind::integers && pair.integers.size() == 2) {
      left = std::clamp<std::int64_t>(pair.integers[0], -1, std::int64_t{1} << 40);
      right = std::clamp<std::int64_t>(pair.integers[1], -1, std::int64_t{1} << 40);
    } else if (pair.kind != Argument::Kind::absent) {
      left = right = std::nullopt;
    }
  } else if (layout.window_keys >= 0) {
    auto keys = window_at(call, layout.window_keys);
    left = keys && *keys > 0 ? *keys - 1 : keys;
  }
  if (!left || !right) {
    seen.assumption = Assumption::causal_unknown;
    return;
  }
  seen.mask.window_left = *left;
  seen.mask.window_right = *right;
}

Seen mask_of(const AttentionLayout& layout, const Call& call) {
  Seen seen{.mask = {.bottom_right = layout.bottom_right}};
  if (layout.causal >= 0) {
    auto flag = integer_at(call, layout.causal);
    seen.mask.causal = flag && *flag != 0;
    bool defaulted = static_cast<std::size_t>(layout.causal) >= call.arguments.size();
    if (!flag && !defaulted) seen.assumption = Assumption::causal_unknown;
  }
  if (layout.mask_type >= 0) {
    auto type = integer_at(call, layout.mask_type);
    seen.mask.causal = type && (*type == 1 || *type == 2);
    seen.mask.bottom_right = type && *type == 2;
    if (!type) seen.assumption = Assumption::causal_unknown;
  }
  read_windows(layout, call, seen);
  if (!seen.mask.causal && is_tensor(call, layout.bias)) {
    seen.assumption = Assumption::mask_is_tensor;
  }
  return seen;
}

// The lengths of packed sequences. They come from the content of the offsets, or from the shapes if
// these leave no choice: a single sequence, or all sequences as long as the longest.
class Lengths {
 public:
  static Result<Lengths> read(const Call& call, Position offsets, Position longest,
                              std::int64_t tokens) {
    Sizes shape = MFU_TRY(tensor_sizes(call, offsets, 1));
    if (shape.size() != 1 || shape[0] < 1) return contradiction("offsets that are no list");
    Lengths lengths;
    lengths.count_ = static_cast<std::size_t>(shape[0] - 1);
    Sizes values = tensor_at(call, offsets)->values;
    if (values.size() == lengths.count_ + 1) {
      bool rising =
          values.front() >= 0 && values.back() <= tokens && std::ranges::is_sorted(values);
      if (!rising) return contradiction("offsets that do not rise from 0 to the tokens");
      lengths.offsets_ = values;
      return lengths;
    }
    std::optional<std::int64_t> most = integer_at(call, longest);
    auto count = static_cast<std::int64_t>(lengths.count_);
    bool alike = most && *most > 0 && tokens % *most == 0 && tokens / *most == count;
    if (count != 1 && !alike) {
      return fail(ErrorCode::unsupported,
                  "the lengths of its packed sequences are in a tensor that was not recorded");
    }
    lengths.each_ = count == 1 ? tokens : *most;
    return lengths;
  }

  std::size_t count() const { return count_; }
  bool alike() const { return offsets_.empty(); }
  std::int64_t operator[](std::size_t i) const {
    if (offsets_.empty()) return each_;
    return offsets_[i + 1] - offsets_[i];
  }

 private:
  std::size_t count_ = 0;
  std::int64_t each_ = 0;
  Sizes offsets_;
};

Result<std::uint64_t> packed_pairs(const AttentionLayout& layout, const Call& call,
                                   const Tensors& at, const AttentionMask& mask) {
  auto next = [](Position position) {
    return position < 0 ? kNoPosition : static_cast<Position>(position + 1);
  };
  std::size_t token = at.query.size() - 3;
  if (token > 1 || (token == 1 && at.query[0] != 1)) {
    return contradiction("packed sequences need one dimension of tokens");
  }
  Lengths queries =
      MFU_TRY(Lengths::read(call, layout.offsets_q, layout.longest_q, at.query[token]));
  bool own_keys = is_tensor(call, next(layout.offsets_q));
  Position keys_at = own_keys ? next(layout.offsets_q) : layout.offsets_q;
  Lengths keys = MFU_TRY(Lengths::read(call, keys_at, next(layout.longest_q), at.key[token]));
  if (queries.count() != keys.count()) return contradiction("offsets of queries and keys differ");
  std::uint64_t heads = size_of(at.query[at.query.size() - 2]);
  std::uint64_t pairs = 0;
  if (queries.alike() && keys.alike()) {
    pairs =
        queries.count() == 0 ? 0 : times(visible_pairs(queries[0], keys[0], mask), queries.count());
    return times(pairs, heads);
  }
  for (std::size_t i = 0; i < queries.count(); ++i) {
    pairs = plus(pairs, visible_pairs(queries[i], keys[i], mask));
  }
  return times(pairs, heads);
}

Result<std::uint64_t> dense_pairs(const AttentionLayout& layout, const Tensors& at,
                                  const AttentionMask& mask) {
  if (at.query.size() != 4) {
    return fail(ErrorCode::unsupported, "a query of other than 4 dimensions without offsets");
  }
  std::size_t heads = layout.heads_second ? 1 : 2;
  std::size_t length = layout.heads_second ? 2 : 1;
  bool fits = at.key[0] == at.query[0] && at.value[length] == at.key[length] && at.key[heads] > 0 &&
              at.query[heads] % at.key[heads] == 0;
  // A batch of one key for many queries broadcasts.
  bool broadcasts = at.key[0] == 1 && at.value[length] == at.key[length];
  if (!fits && !broadcasts && product_of(at.query) != 0 && product_of(at.key) != 0) {
    return contradiction("query, key and value do not fit each other");
  }
  return pairs_of({.batch = at.query[0],
                   .heads = at.query[heads],
                   .queries = at.query[length],
                   .keys = at.key[length],
                   .mask = mask});
}

Result<Tensors> tensors_of(const AttentionLayout& layout, const Call& call) {
  auto after = [&](int steps) { return static_cast<Position>(layout.query + steps); };
  Tensors at;
  at.query = MFU_TRY(tensor_sizes(call, layout.query, 3));
  at.key = MFU_TRY(tensor_sizes(call, after(1), 3));
  at.value = MFU_TRY(tensor_sizes(call, after(2), 3));
  if (at.key.size() != at.query.size() || at.value.size() != at.query.size()) {
    return contradiction("query, key and value differ in dimensions");
  }
  if (at.key.back() != at.query.back()) return contradiction("query and key differ in width");
  return at;
}

void fill_bytes(const AttentionLayout& layout, const Call& call, const Tensors& at,
                OperatorCost& cost) {
  auto after = [&](int steps) { return static_cast<Position>(layout.query + steps); };
  auto query = tensor_bytes(call, layout.query);
  auto key = tensor_bytes(call, after(1));
  auto value = tensor_bytes(call, after(2));
  std::uint64_t rows = product_of(at.query.first(at.query.size() - 1));
  auto output = bytes_for(times(rows, size_of(at.value.back())), type_at(call, layout.query));
  cost.read_bytes = sum_of({query, key, value, tensor_bytes(call, layout.bias)});
  cost.written_bytes = output;
  if (layout.backward) {
    cost.read_bytes = sum_of({cost.read_bytes, output, output});  // the output and its gradient
    cost.written_bytes = sum_of({query, key, value});
  }
}

Result<OperatorCost> paged_cost(const AttentionLayout& layout, const Call& call) {
  PagedSizes sizes = MFU_TRY(sizes_of_paged(layout, call));
  std::uint64_t flop = plus(plus(sizes.one.flop, sizes.few.flop), sizes.many.flop);
  OperatorCost cost = MFU_TRY(counted(flop, flop));
  cost.compute_type = type_at(call, layout.query);
  cost.assumption = mask_of(layout, call).assumption;
  return cost;
}

// The part to which a sequence belongs.
PagedPart& part_of(PagedSizes& sizes, std::int64_t queries, std::int64_t keys) {
  if (queries >= keys || queries > kMostDrafted) return sizes.many;
  return queries == 1 ? sizes.one : sizes.few;
}

}  // namespace

// Sequences that attend to pages of a cache. Only the values of two tensors tell their lengths.
Result<PagedSizes> sizes_of_paged(const AttentionLayout& layout, const Call& call) {
  auto after = [&](int steps) { return static_cast<Position>(layout.query + steps); };
  Sizes query = MFU_TRY(tensor_sizes(call, layout.query, 3));
  Sizes key = MFU_TRY(tensor_sizes(call, after(1), 4));
  Sizes value = MFU_TRY(tensor_sizes(call, after(2), 4));
  if (query.size() != 3) return contradiction("packed sequences need one dimension of tokens");
  const Argument* offsets = tensor_at(call, layout.offsets_q);
  const Argument* used = tensor_at(call, layout.used_keys);
  bool known = offsets != nullptr && used != nullptr && !used->values.empty() &&
               offsets->values.size() == used->values.size() + 1;
  if (!known) {
    return fail(ErrorCode::unsupported,
                "the lengths of its requests are in a tensor that was not recorded");
  }
  Sizes starts = offsets->values;
  bool rising = starts.front() >= 0 && starts.back() <= query[0] && std::ranges::is_sorted(starts);
  if (!rising) return contradiction("offsets that do not rise from 0 to the tokens");
  AttentionMask mask = mask_of(layout, call).mask;
  PagedSizes sizes{.causal = mask.causal};
  for (std::size_t i = 0; i < used->values.size(); ++i) {
    std::int64_t keys = std::max<std::int64_t>(used->values[i], 0);
    std::int64_t queries = starts[i + 1] - starts[i];
    if (queries == 0) continue;
    PagedPart& part = part_of(sizes, queries, keys);
    std::uint64_t pairs = times(visible_pairs(queries, keys, mask), size_of(query[1]));
    std::int64_t reach = mask.window_left >= 0 ? mask.window_left + queries : keys;
    if (queries >= keys) ++sizes.begun;
    part.sequences += 1;
    part.rows += size_of(queries);
    part.keys += size_of(std::min(keys, reach));
    part.flop = plus(part.flop, attention_forward(pairs, key.back(), value.back()).model_flop);
  }
  std::uint64_t width = times(size_of(key[1]), size_of(key.back()) + size_of(value.back()));
  sizes.token_bytes = bytes_for(width, type_at(call, after(1))).value_or(0);
  return sizes;
}

Result<OperatorCost> attention_cost(const AttentionLayout& layout, const Call& call) {
  if (layout.paged) return paged_cost(layout, call);
  Tensors at = MFU_TRY(tensors_of(layout, call));
  if (is_tensor(call, layout.used_keys) || is_tensor(call, layout.pages) ||
      is_tensor(call, layout.padding)) {
    return fail(ErrorCode::unsupported,
                "how many keys it uses is in a tensor that was not recorded");
  }
  Seen seen = mask_of(layout, call);
  bool packed = is_tensor(call, layout.offsets_q);
  Result<std::uint64_t> found =
      packed ? packed_pairs(layout, call, at, seen.mask) : dense_pairs(layout, at, seen.mask);
  std::uint64_t pairs = MFU_TRY(found);
  AttentionFlop flop = layout.backward ? attention_backward(pairs, at.key.back(), at.value.back())
                                       : attention_forward(pairs, at.key.back(), at.value.back());
  OperatorCost cost = MFU_TRY(counted(flop.model_flop, flop.hardware_flop));
  cost.compute_type = type_at(call, layout.query);
  cost.assumption = seen.assumption;
  fill_bytes(layout, call, at, cost);
  return cost;
}

namespace {

std::optional<std::size_t> place_of(const Operator& op, std::size_t arguments,
                                    Position AttentionLayout::* position) {
  const OperatorFormula* formula = op.formula;
  while (formula != nullptr && formula->other != nullptr && formula->other_count == arguments) {
    formula = formula->other;
  }
  if (formula == nullptr) return std::nullopt;
  const auto* layout = std::get_if<AttentionLayout>(&formula->layout);
  if (layout == nullptr || layout->*position < 0) return std::nullopt;
  return static_cast<std::size_t>(layout->*position);
}

}  // namespace

std::optional<std::size_t> mask_argument(const Operator& op, std::size_t arguments) {
  return place_of(op, arguments, &AttentionLayout::bias);
}

std::optional<std::size_t> offsets_argument(const Operator& op, std::size_t arguments) {
  return place_of(op, arguments, &AttentionLayout::offsets_q);
}

}  // namespace mfu
