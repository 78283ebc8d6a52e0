// Reads arguments by position. An Error says which one is missing or makes no sense.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ops/formula.h"

namespace mfu {

using Sizes = std::span<const std::int64_t>;

// The sizes of a tensor that must be there, with at least that many dimensions. Each size is in
// [0, 2^40].
Result<Sizes> tensor_sizes(const Call& call, Position position, std::size_t least_rank = 0);
// The tensor at that position. Null if there is no such argument, or if it is no tensor.
const Argument* tensor_at(const Call& call, Position position);

// An integer or a boolean. None if it was not recorded or not given.
std::optional<std::int64_t> integer_at(const Call& call, Position position);
// The same, but fails if there is none.
Result<std::int64_t> integer_needed(const Call& call, Position position, std::string_view what);

// One element of a list of integers. A list of one value stands for all elements. Returns the
// fallback if the operator was called with fewer arguments; fails if the argument was not recorded.
Result<std::int64_t> list_element(const Call& call, Position position, std::size_t index,
                                  std::int64_t fallback, std::string_view what);

ElementType type_at(const Call& call, Position position);

// The bytes of a tensor; 0 if there is no tensor.
std::optional<std::uint64_t> tensor_bytes(const Call& call, Position position);
std::optional<std::uint64_t> bytes_for(std::uint64_t elements, ElementType type);

// The sum of the parts. It is unknown if one of them is.
std::optional<std::uint64_t> sum_of(std::initializer_list<std::optional<std::uint64_t>> parts);

// A cost with these counts. Fails if a product does not fit 64 bits, which no real tensor causes.
Result<OperatorCost> counted(std::uint64_t model_flop, std::uint64_t hardware_flop);

Failure not_recorded(Position position, std::string_view what);
Failure contradiction(std::string_view what);

}  // namespace mfu
