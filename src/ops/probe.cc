// For tests/python: reads one request per line and writes one answer per line, so that one process
// can answer for thousands of operators. It is not installed.
//
//   {"operator": "aten::mm", "arguments": […], "result": {"tensor": …}}     as request.h reads them
//   {"operator": "aten::mm", "recorded": [["float", [4, 8], ""], …]}   as Kineto writes them
//   {"all": true}                                                       the names of the table
#include <iostream>
#include <string>

#include "base/json.h"
#include "mfu/ops.h"
#include "ops/request.h"

namespace mfu {
namespace {

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
  out.member("type", name_of(cost.compute_type)).member("note", name_of(cost.assumption));
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
