// For tests/python: one request a line on stdin, one answer a line on stdout, so that thousands of
// operators cost one process. Not installed.
//
//   {"operator": "aten::mm", "arguments": [{"tensor": [4, 8], "type": "bf16", "values": […]},
//    {"list": [1, 1]}, 3, true, 0.5, null, "text", {"tensors": 1}, {"unknown": 1}],
//    "result": {"tensor": …}}
//   {"operator": "aten::mm", "recorded": [["float", [4, 8], ""], …]}   as Kineto writes them
//   {"all": true}                                                       the names of the table
#include <charconv>
#include <iostream>
#include <string>

#include "base/json.h"
#include "mfu/ops.h"

namespace mfu {
namespace {

std::int64_t integer_of(const Json& value) {
  if (auto truth = value.boolean()) return *truth ? 1 : 0;
  const std::string& digits = value.raw_number();
  std::int64_t integer = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), integer);
  return integer;
}

std::vector<std::int64_t> integers_of(const Json* list) {
  std::vector<std::int64_t> integers;
  if (list == nullptr) return integers;
  for (const Json& element : list->elements()) integers.push_back(integer_of(element));
  return integers;
}

void add_object(ArgumentList& arguments, const Json& value) {
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

void add(ArgumentList& arguments, const Json& value) {
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

std::string all_names() {
  JsonWriter out;
  out.begin_array();
  for (const Operator& op : all_operators()) {
    out.begin_object().member("name", op.name).member("role", name_of(op.role));
    out.member("kind", name_of(op.kind)).member("formula", op.formula != nullptr).end_object();
  }
  out.end_array();
  return out.text();
}

Result<std::string> answer(const std::string& line) {
  Json request = MFU_TRY(parse_json(line, "request"));
  if (request.find("all") != nullptr) return all_names();
  const Json* name = request.find("operator");
  if (name == nullptr || name->string() == nullptr) {
    return fail(ErrorCode::invalid_argument, "a request needs an operator");
  }
  const Operator* op = find_operator(*name->string());
  JsonWriter out;
  out.begin_object();
  if (op == nullptr) {
    out.member("looks_flop_carrying", looks_flop_carrying(*name->string())).end_object();
    return out.text();
  }
  ArgumentList arguments, result;
  if (const Json* list = request.find("arguments")) {
    for (const Json& value : list->elements()) add(arguments, value);
  }
  if (const Json* list = request.find("recorded")) {
    for (const Json& value : list->elements()) {
      const auto& parts = value.elements();
      if (parts.size() != 3) return fail(ErrorCode::invalid_argument, "type, dims, concrete");
      arguments.add_recorded(*parts[0].string(), integers_of(&parts[1]), *parts[2].string());
    }
  }
  result.add_unknown();
  if (const Json* given = request.find("result")) {
    result.clear();
    add(result, *given);
  }
  OperatorCost cost = MFU_TRY(cost_of(*op, arguments.view(), result.view()[0]));
  out.member("role", name_of(op->role)).member("kind", name_of(op->kind));
  out.member("model", cost.model_flop).member("hardware", cost.hardware_flop);
  out.member("estimated", cost.estimated_flop);
  out.member("read", cost.read_bytes).member("written", cost.written_bytes);
  out.member("type", name_of(cost.compute_type)).member("note", describe(cost.assumption));
  out.end_object();
  return out.text();
}

}  // namespace
}  // namespace mfu

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    auto result = mfu::answer(line);
    if (result) {
      std::cout << *result << '\n';
    } else {
      mfu::JsonWriter out;
      out.begin_object().member("error", result.error().message);
      out.member("code", mfu::name_of(result.error().code)).end_object();
      std::cout << out.text() << '\n';
    }
  }
}
