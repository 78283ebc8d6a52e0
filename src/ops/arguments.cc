#include "mfu/ops.h"

namespace mfu {

void ArgumentList::clear() {
  arguments_.clear();
  ranges_.clear();
  storage_.clear();
}

void ArgumentList::add(Argument argument, std::span<const std::int64_t> integers,
                       std::span<const std::int64_t> values) {
  Range range{.first = storage_.size(), .count = integers.size()};
  storage_.insert(storage_.end(), integers.begin(), integers.end());
  range.values_first = storage_.size();
  range.values_count = values.size();
  storage_.insert(storage_.end(), values.begin(), values.end());
  arguments_.push_back(argument);
  ranges_.push_back(range);
}

void ArgumentList::add_absent() {
  add({.kind = Argument::Kind::absent}, {});
}
void ArgumentList::add_unknown() {
  add({.kind = Argument::Kind::unknown}, {});
}
void ArgumentList::add_tensor(ElementType type, std::span<const std::int64_t> sizes,
                              std::span<const std::int64_t> values) {
  add({.kind = Argument::Kind::tensor, .type = type}, sizes, values);
}
void ArgumentList::add_tensor(ElementType type, std::initializer_list<std::int64_t> sizes) {
  add_tensor(type, std::span(sizes.begin(), sizes.size()));
}
void ArgumentList::add_tensor_list() {
  add({.kind = Argument::Kind::tensor_list}, {});
}
void ArgumentList::add_integers(std::span<const std::int64_t> integers) {
  add({.kind = Argument::Kind::integers}, integers);
}
void ArgumentList::add_integers(std::initializer_list<std::int64_t> integers) {
  add_integers(std::span(integers.begin(), integers.size()));
}
void ArgumentList::add_integer(std::int64_t value) {
  add({.kind = Argument::Kind::integer}, {&value, 1});
}
void ArgumentList::add_number(double value) {
  add({.kind = Argument::Kind::number, .number = value}, {});
}
void ArgumentList::add_boolean(bool value) {
  std::int64_t integer = value ? 1 : 0;
  add({.kind = Argument::Kind::boolean}, {&integer, 1});
}
void ArgumentList::add_text(std::string_view text) {
  add({.kind = Argument::Kind::text, .text = text}, {});
}

std::span<const Argument> ArgumentList::view() {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const Range& range = ranges_[i];
    std::span<const std::int64_t> all(storage_);
    arguments_[i].integers = all.subspan(range.first, range.count);
    arguments_[i].values = all.subspan(range.values_first, range.values_count);
  }
  return arguments_;
}

}  // namespace mfu
