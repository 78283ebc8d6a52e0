#include "ops/reading.h"

#include <fmt/format.h>

#include "ops/formulas.h"

namespace mfu {
namespace {

// Larger than any tensor, but small enough that sums and shifts of a few sizes stay below 2^63.
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

const Argument* argument_at(const Call& call, Position position) {
  bool there = position >= 0 && static_cast<std::size_t>(position) < call.arguments.size();
  return there ? &call.arguments[static_cast<std::size_t>(position)] : nullptr;
}

}  // namespace

Failure not_recorded(Position position, std::string_view what) {
  return fail(ErrorCode::unsupported,
              fmt::format("argument {} ({}) was not recorded", int{position}, what));
}

Failure contradiction(std::string_view what) {
  return fail(ErrorCode::malformed, std::string(what));
}

const Argument* tensor_at(const Call& call, Position position) {
  const Argument* argument = argument_at(call, position);
  return argument != nullptr && argument->kind == Argument::Kind::tensor ? argument : nullptr;
}

Result<Sizes> tensor_sizes(const Call& call, Position position, std::size_t least_rank) {
  const Argument* tensor = tensor_at(call, position);
  if (tensor == nullptr) return not_recorded(position, "a tensor");
  if (tensor->integers.size() < least_rank) {
    return contradiction(fmt::format("argument {} has {} dimensions, at least {} are needed",
                                     int{position}, tensor->integers.size(), least_rank));
  }
  for (std::int64_t size : tensor->integers) {
    if (size < 0 || size > kMostSize) {
      return contradiction(fmt::format("argument {} has a size of {}", int{position}, size));
    }
  }
  return tensor->integers;
}

std::optional<std::int64_t> integer_at(const Call& call, Position position) {
  const Argument* argument = argument_at(call, position);
  if (argument == nullptr || argument->integers.empty()) return std::nullopt;
  bool whole =
      argument->kind == Argument::Kind::integer || argument->kind == Argument::Kind::boolean;
  if (!whole) return std::nullopt;
  return argument->integers[0];
}

Result<std::int64_t> integer_needed(const Call& call, Position position, std::string_view what) {
  std::optional<std::int64_t> value = integer_at(call, position);
  if (!value) return not_recorded(position, what);
  if (*value < 0 || *value > kMostSize) {
    return contradiction(fmt::format("{} is {}", what, *value));
  }
  return *value;
}

Result<std::int64_t> list_element(const Call& call, Position position, std::size_t index,
                                  std::int64_t fallback, std::string_view what) {
  if (position < 0 || static_cast<std::size_t>(position) >= call.arguments.size()) return fallback;
  const Argument* list = argument_at(call, position);
  if (list->kind == Argument::Kind::integer) index = 0;
  bool known = list->kind == Argument::Kind::integers || list->kind == Argument::Kind::integer;
  if (!known || list->integers.empty()) return not_recorded(position, what);
  if (list->integers.size() == 1) index = 0;
  if (index >= list->integers.size()) {
    return contradiction(fmt::format("{} has {} elements", what, list->integers.size()));
  }
  std::int64_t value = list->integers[index];
  if (value < 0 || value > kMostSize) return contradiction(fmt::format("{} is {}", what, value));
  return value;
}

ElementType type_at(const Call& call, Position position) {
  const Argument* tensor = tensor_at(call, position);
  return tensor != nullptr ? tensor->type : ElementType::unknown;
}

std::optional<std::uint64_t> bytes_for(std::uint64_t elements, ElementType type) {
  std::optional<std::uint32_t> bytes = bytes_of(type);
  if (!bytes) return std::nullopt;
  return times(elements, *bytes);
}

std::optional<std::uint64_t> tensor_bytes(const Call& call, Position position) {
  const Argument* tensor = tensor_at(call, position);
  if (tensor == nullptr) return 0;
  return bytes_for(product_of(tensor->integers), tensor->type);
}

std::optional<std::uint64_t> sum_of(std::initializer_list<std::optional<std::uint64_t>> parts) {
  std::uint64_t sum = 0;
  for (const auto& part : parts) {
    if (!part) return std::nullopt;
    sum = plus(sum, *part);
  }
  return sum;
}

Result<OperatorCost> counted(std::uint64_t model_flop, std::uint64_t hardware_flop) {
  if (model_flop == kMostFlop || hardware_flop == kMostFlop) {
    return contradiction("its sizes multiply to more than 2^64 FLOP");
  }
  OperatorCost cost;
  cost.model_flop = model_flop;
  cost.hardware_flop = hardware_flop;
  return cost;
}

}  // namespace mfu
