#include <charconv>

#include "mfu/ops.h"

namespace mfu {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "64", "True", "False"; Kineto writes Python's words.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  text = trimmed(text);
  if (text == "True" || text == "true") return 1;
  if (text == "False" || text == "false") return 0;
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// "[1, 1]", "[True, False]", "[]". Empty optional: not such a list.
std::optional<std::vector<std::int64_t>> parse_list(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::int64_t> values;
  while (!trimmed(text).empty()) {
    std::size_t comma = std::min(text.find(','), text.size());
    std::optional<std::int64_t> value = parse_integer(text.substr(0, comma));
    if (!value) return std::nullopt;
    values.push_back(*value);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return values;
}

bool is_scalar(std::string_view type) {
  return type == "Scalar" || type == "Int" || type == "Bool" || type == "Double";
}

bool is_list(std::string_view type) {
  return type == "ScalarList" || type == "GenericList" || type == "IntList" || type == "BoolList";
}

}  // namespace

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

void ArgumentList::add_recorded(std::string_view type, std::span<const std::int64_t> sizes,
                                std::string_view concrete) {
  if (type.empty()) {
    // None; a string or another type that Kineto has no word for looks the same.
    return sizes.empty() ? add_absent() : add_tensor(ElementType::unknown, sizes);
  }
  if (type == "TensorList") return add_tensor_list();
  if (is_list(type)) {
    std::optional<std::vector<std::int64_t>> list = parse_list(concrete);
    return list ? add_integers(*list) : add_unknown();
  }
  if (!is_scalar(type)) return add_tensor(parse_element_type(type), sizes);
  if (std::optional<std::int64_t> integer = parse_integer(concrete)) {
    bool word = concrete.find_first_of("TtFf") != std::string_view::npos;
    return word ? add_boolean(*integer != 0) : add_integer(*integer);
  }
  double number = 0;
  auto [end, error] = std::from_chars(concrete.data(), concrete.data() + concrete.size(), number);
  bool whole = error == std::errc() && end == concrete.data() + concrete.size();
  return whole && !concrete.empty() ? add_number(number) : add_unknown();
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
