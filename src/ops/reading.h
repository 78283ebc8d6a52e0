// Arguments read by position, with an Error that says which one is missing or makes no sense.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ops/formula.h"

namespace mfu {

using Sizes = std::span<const std::int64_t>;

// A tensor that must be there, of that many dimensions at least. Its sizes lie in [0, 2^40].
Result<Sizes> tensor_sizes(const Call& call, Position position, std::size_t least_rank = 0);
// What is there, or null: the position is not one, the argument was not given or is no tensor.
const Argument* tensor_at(const Call& call, Position position);

// An integer or a boolean; empty where it was not recorded or not given.
std::optional<std::int64_t> integer_at(const Call& call, Position position);
// Likewise, but an Error where it is empty.
Result<std::int64_t> integer_needed(const Call& call, Position position, std::string_view what);

// A list of integers, one value standing for all; the fallback where the operator was called with
// fewer arguments; an Error where the argument was not recorded.
Result<std::int64_t> list_element(const Call& call, Position position, std::size_t index,
                                  std::int64_t fallback, std::string_view what);

ElementType type_at(const Call& call, Position position);

// Bytes of a tensor; 0 for none.
std::optional<std::uint64_t> tensor_bytes(const Call& call, Position position);
std::optional<std::uint64_t> bytes_for(std::uint64_t elements, ElementType type);

// Sums that stay unknown once a part is.
std::optional<std::uint64_t> sum_of(std::initializer_list<std::optional<std::uint64_t>> parts);

// Both counts equal. Fails where a product left 64 bits: sizes that no tensor has.
Result<OperatorCost> counted(std::uint64_t model_flop, std::uint64_t hardware_flop);

Failure not_recorded(Position position, std::string_view what);
Failure contradiction(std::string_view what);

}  // namespace mfu
