// Parses the recorded arguments of an operator.
#include "trace/number.h"
#include "trace/scan.h"
#include "trace/texts.h"
#include "trace/trace.h"

namespace mfu {
namespace {

// The elements of a list as text. Empty if it is no list.
std::vector<std::string_view> elements_of(std::string_view list) {
  std::vector<std::string_view> elements;
  if (list.size() < 2 || list.front() != '[') return elements;
  const char* at = list.data() + 1;
  const char* end = list.data() + list.size();
  while (true) {
    at = skip_space(at, end);
    if (at < end && *at == ',') at = skip_space(at + 1, end);
    if (at >= end || *at == ']') return elements;
    const char* after = skip_value(at, end);
    if (after == nullptr || after == at) return elements;
    elements.emplace_back(at, static_cast<std::size_t>(after - at));
    at = after;
  }
}

std::string unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
  return unescape(text);
}

// [2, 3] is the shape of a tensor, [[2, 3], [4]] the shapes of a list of tensors. [] may be a
// scalar of either kind.
void read_shapes(OperatorInput& input, std::string_view dims) {
  std::vector<std::string_view> elements = elements_of(dims);
  input.list = !elements.empty() && elements[0].front() == '[';
  std::vector<std::int64_t> shape;
  for (std::string_view element : elements) {
    if (input.list) {
      shape.clear();
      for (std::string_view size : elements_of(element)) {
        shape.push_back(parse_id(size).value_or(0));
      }
      input.shapes.push_back(shape);
    } else {
      shape.push_back(parse_id(element).value_or(0));
    }
  }
  if (!input.list && !elements.empty()) input.shapes.push_back(shape);
}

// dims|types|concrete
std::vector<std::vector<std::string_view>> parts_of(std::string_view text) {
  std::vector<std::vector<std::string_view>> parts(3);
  const char* at = text.data();
  const char* end = text.data() + text.size();
  for (auto& part : parts) {
    if (at < end && *at == '[') {
      const char* after = skip_value(at, end);
      if (after == nullptr) return parts;
      part = elements_of({at, static_cast<std::size_t>(after - at)});
      at = after;
    }
    if (at < end && *at != '|') return parts;
    if (at < end) ++at;
  }
  return parts;
}

}  // namespace

std::vector<OperatorInput> parse_inputs(std::string_view text) {
  std::vector<std::vector<std::string_view>> parts = parts_of(text);
  const auto& [dims, types, concrete] = std::tie(parts[0], parts[1], parts[2]);
  std::vector<OperatorInput> inputs(std::max(dims.size(), types.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i < types.size()) inputs[i].type = unquoted(types[i]);
    if (i < dims.size()) read_shapes(inputs[i], dims[i]);
    if (i < concrete.size()) inputs[i].concrete = unquoted(concrete[i]);
    bool tensor =
        !inputs[i].type.empty() && inputs[i].type != "Scalar" && inputs[i].type != "ScalarList" &&
        inputs[i].type != "TensorList" && inputs[i].type != "Int" && inputs[i].type != "Bool" &&
        inputs[i].type != "Double" && inputs[i].type != "GenericList" && inputs[i].type != "Device";
    // A tensor without dimensions is one number. For anything else [] tells nothing.
    if (tensor && inputs[i].shapes.empty()) inputs[i].shapes.emplace_back();
    inputs[i].list = inputs[i].list || inputs[i].type == "TensorList";
  }
  return inputs;
}

}  // namespace mfu
