// Reads arguments as profilers write them. This file is not part of the observer, which has the
// arguments themselves. So the observer does not need std::from_chars for doubles, which the C++
// library of older systems lacks.
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

void ArgumentList::add_recorded(std::string_view type, std::span<const std::int64_t> sizes,
                                std::string_view concrete) {
  if (type.empty()) {
    // This is None. A string, or another type that Kineto cannot name, looks the same.
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

}  // namespace mfu
