#include <fmt/format.h>

#include "attribution/names.h"
#include "attribution/work.h"

namespace mfu {
namespace {

// Finds a user's formula for a Triton kernel by its name in the trace. Old versions of Triton
// append what they know about the arguments ("kernel_0d1d2de").
const Operator* find_triton(std::string_view kernel) {
  if (formulas_added() == 0) return nullptr;
  std::size_t last = kernel.rfind('_');
  bool old = last != std::string_view::npos && last + 1 < kernel.size() &&
             kernel.find_first_not_of("0123456789cde", last + 1) == std::string_view::npos;
  const Operator* found = find_operator(fmt::format("triton::{}", kernel));
  return found == nullptr && old ? find_operator(fmt::format("triton::{}", kernel.substr(0, last)))
                                 : found;
}

}  // namespace

const CostTable::Facts& CostTable::facts(std::uint32_t name) {
  static const Facts kNothing;
  if (name >= facts_.size()) return kNothing;
  Facts& facts = facts_[name];
  if (!facts.known) {
    std::string_view text = trace_.text(name);
    facts.known = true;
    facts.op = find_operator(text);
    const Operator* triton = find_triton(text);
    if (facts.op == nullptr) facts.op = triton;
    facts.flop_carrying = facts.op == nullptr && mfu::looks_flop_carrying(text);
    facts.matmul = names_matmul(text) || triton != nullptr;
    facts.tf32 = names_tf32(text);
    facts.data = names_data_loading(text);
    facts.communication = names_communication(text);
  }
  return facts;
}

const Operator* CostTable::operator_of(std::uint32_t name) {
  return facts(name).op;
}
bool CostTable::looks_flop_carrying(std::uint32_t name) {
  return facts(name).flop_carrying;
}
bool CostTable::is_matmul_kernel(std::uint32_t name) {
  return facts(name).matmul;
}
bool CostTable::is_tf32_kernel(std::uint32_t name) {
  return facts(name).tf32;
}
bool CostTable::is_data_loading(std::uint32_t name) {
  return facts(name).data;
}
bool CostTable::is_communication(std::uint32_t name) {
  return facts(name).communication;
}

CostEntry CostTable::work_out(std::uint32_t name, std::uint32_t inputs) {
  CostEntry entry{name, inputs, operator_of(name), {}, {}};
  if (entry.op == nullptr) {
    entry.reason = "not in the table of operators";
    return entry;
  }
  if (inputs == kNone) {
    entry.reason = "no shapes recorded (record_shapes=True keeps them)";
    return entry;
  }
  arguments_.clear();
  std::vector<OperatorInput> recorded = parse_inputs(trace_.text(inputs));
  for (const OperatorInput& input : recorded) {
    if (input.list) {
      arguments_.add_tensor_list();
    } else {
      std::span<const std::int64_t> sizes;
      if (!input.shapes.empty()) sizes = input.shapes.front();
      arguments_.add_recorded(input.type, sizes, input.concrete);
    }
  }
  Result<OperatorCost> cost = cost_of(*entry.op, arguments_.view());
  if (cost.has_value()) {
    entry.cost = *cost;
  } else {
    entry.reason = cost.error().message;
  }
  return entry;
}

std::uint32_t CostTable::cost_row(std::uint32_t host) {
  std::uint32_t name = trace_.host.name[host];
  std::uint32_t inputs = trace_.host.inputs[host];
  std::uint64_t key = (static_cast<std::uint64_t>(name) << 32) | inputs;
  auto [found, fresh] = rows_.try_emplace(key, static_cast<std::uint32_t>(costs_.size()));
  if (fresh) costs_.push_back(work_out(name, inputs));
  return found->second;
}

std::string shapes_text(std::string_view recorded_inputs) {
  std::string text;
  for (const OperatorInput& input : parse_inputs(recorded_inputs)) {
    for (const auto& shape : input.shapes) {
      if (shape.empty()) continue;
      text += fmt::format("{}[{}]", text.empty() ? "" : " ", fmt::join(shape, ","));
    }
  }
  return text;
}

}  // namespace mfu
