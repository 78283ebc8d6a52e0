// A call written as JSON, for the tests: {"tensor": [4, 8], "type": "bf16", "values": […]},
// {"list": [1, 1]}, 3, true, 0.5, null, "text", {"tensors": 1}, {"unknown": 1}.
#pragma once

#include <charconv>
#include <string>
#include <vector>

#include "base/json.h"
#include "mfu/ops.h"

namespace mfu {

inline std::int64_t integer_of(const Json& value) {
  if (auto truth = value.boolean()) return *truth ? 1 : 0;
  const std::string& digits = value.raw_number();
  std::int64_t integer = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), integer);
  return integer;
}

inline std::vector<std::int64_t> integers_of(const Json* list) {
  std::vector<std::int64_t> integers;
  if (list == nullptr) return integers;
  for (const Json& element : list->elements()) integers.push_back(integer_of(element));
  return integers;
}

inline void add_object(ArgumentList& arguments, const Json& value) {
  if (const Json* sizes = value.find("tensor")) {
    const Json* type = value.find("type");
    bool named = type != nullptr && type->string() != nullptr;
    arguments.add_tensor(named ? parse_element_type(*type->string()) : ElementType::unknown,
                         integers_of(sizes), integers_of(value.find("values")));
  } else if (value.find("tensors") != nullptr) {
    arguments.add_tensor_list();
  } else if (const Json* list = value.find("list")) {
    arguments.add_integers(integers_of(list));
  } else {
    arguments.add_unknown();
  }
}

inline void add(ArgumentList& arguments, const Json& value) {
  switch (value.kind()) {
    case Json::Kind::null:
      return arguments.add_absent();
    case Json::Kind::boolean:
      return arguments.add_boolean(*value.boolean());
    case Json::Kind::string:
      return arguments.add_text(*value.string());
    case Json::Kind::number:
      if (value.raw_number().find_first_of(".eE") != std::string::npos) {
        return arguments.add_number(value.number().value_or(0));
      }
      return arguments.add_integer(integer_of(value));
    default:
      return add_object(arguments, value);
  }
}

}  // namespace mfu
