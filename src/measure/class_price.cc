#include "class_price.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "mfu/ops.h"
#include "ops/formulas.h"
#include "ops/request.h"

namespace mfu {
namespace {

struct Count {
  FlopCount exact, eager, fused;  // ours; torch's counter with eager attention; with fused
};

struct Priced {
  ClassNeed& found;
  Recompute recompute;
  bool plain_attention = false;                    // plain products make the scores
  FlopCount experts{};                             // of the forward pass
  std::map<std::string, std::uint64_t> uncounted;  // calls by operator
  std::map<std::string, Count> differing;          // operators that torch counts differently
};

// The scores that a fused backward computes again are left out, as everywhere in `mfu flops`.
void add_cost(Priced& priced, Part part, const Json& row, const Count& each, std::uint64_t calls) {
  FlopNeed& need = priced.found.need;
  need.model_flop += each.exact * calls;
  need.hardware_flop += each.exact * calls;
  const Json* again = row.find("again");  // it is in a layer that a backward pass reaches
  bool layer = again != nullptr && again->boolean().value_or(false);
  bool repeated = priced.recompute == Recompute::full ||
                  (priced.recompute == Recompute::selective && part == Part::attention_scores);
  if (layer && repeated) need.hardware_flop += each.exact * calls;
  need.by_part[part] += each.exact * calls;
  const Json* backward = row.find("backward");
  bool forward = backward == nullptr || !backward->boolean().value_or(false);
  if (forward && part == Part::experts) priced.experts += each.exact * calls;
  priced.found.flopcounter += each.eager * calls;
  priced.found.flopcounter_fused += each.fused * calls;
}

void add_difference(Priced& priced, const std::string& what, const Count& each,
                    std::uint64_t calls) {
  if (each.exact == each.eager) return;
  Count& sum = priced.differing[what];
  sum.exact += each.exact * calls;
  sum.eager += each.eager * calls;
}

// The FLOPs that a backward saves if the gradient of queries, keys or values is not needed.
FlopCount not_needed(const Json& shape, std::uint64_t pairs, std::int64_t qk, std::int64_t v) {
  auto needed = [&](std::string_view name) {
    const Json* said = shape.find(name);
    return said == nullptr || said->boolean().value_or(true);
  };
  std::uint64_t widths = 0;
  if (!needed("dq")) widths += static_cast<std::uint64_t>(qk);
  if (!needed("dk")) widths += static_cast<std::uint64_t>(qk);
  if (!needed("dv")) widths += static_cast<std::uint64_t>(v);
  if (!needed("dq") && !needed("dk")) widths += static_cast<std::uint64_t>(v);
  return FlopCount(pairs) * (2 * widths);
}

void add_attention(Priced& priced, const Json& row, std::uint64_t calls, bool backward) {
  const auto& arguments = row.find("args")->elements();
  if (arguments.empty()) return;
  const Json& shape = arguments[0];
  std::uint64_t pairs = shape.count_at("pairs").value_or(0);
  std::uint64_t full = shape.count_at("full").value_or(0);
  auto qk = static_cast<std::int64_t>(shape.count_at("qk").value_or(0));
  auto v = static_cast<std::int64_t>(shape.count_at("v").value_or(0));
  auto flop = backward ? [](std::uint64_t p, std::int64_t a,
                            std::int64_t b) { return attention_backward(p, a, b); }
                       : [](std::uint64_t p, std::int64_t a, std::int64_t b) {
                           return attention_forward(p, a, b);
                         };
  AttentionFlop square = flop(full, qk, v);
  Count count{flop(pairs, qk, v).model_flop, square.model_flop, square.hardware_flop};
  if (backward) {
    count.exact = count.exact - not_needed(shape, pairs, qk, v);
    count.eager = count.eager - not_needed(shape, full, qk, v);
  }
  add_cost(priced, Part::attention_scores, row, count, calls);
  add_difference(priced, "pairs that an attention mask leaves out", count, calls);
}

// A product of two activations inside an attention makes its scores or its values.
bool is_batched(std::string_view name) {
  return name == "aten::bmm" || name == "aten::baddbmm";
}

// Operators on the meta device that torch.utils.flop_counter has a formula for; and grouped
// products, because that convention treats experts as batched products.
constexpr std::array kCounted{"aten::mm",           "aten::addmm",       "aten::bmm",
                              "aten::baddbmm",      "aten::_scaled_mm",  "aten::convolution",
                              "aten::_convolution", "aten::_grouped_mm", "aten::_scaled_grouped_mm",
                              "aten::grouped_mm"};

// Positions of arguments of aten::convolution_backward.
constexpr std::size_t kGroups = 9, kAskedFor = 10;

FlopCount by_counter(std::string_view name, const Json& arguments, FlopCount exact) {
  if (std::ranges::find(kCounted, name) != kCounted.end()) return exact;
  if (name != "aten::convolution_backward") return {};
  const auto& values = arguments.elements();
  if (values.size() <= kAskedFor) return exact;
  // torch's counter leaves the groups out of the weight's gradient.
  std::vector<std::int64_t> asked = integers_of(values[kAskedFor].find("list"));
  if (asked.size() < 2 || asked[1] == 0) return exact;
  FlopCount one = asked[0] != 0 ? FlopCount(exact.low() / 2) : exact;
  return exact - one + one * static_cast<std::uint64_t>(integer_of(values[kGroups]));
}

void add_row(Priced& priced, const Json& row) {
  std::string name = row.text_at("op");
  std::uint64_t calls = row.count_at("calls").value_or(0);
  const Json* given = row.find("args");
  if (given == nullptr) return;
  if (name.starts_with("attention")) {
    return add_attention(priced, row, calls, name == "attention_backward");
  }
  const Operator* op = find_operator(name);
  if (op == nullptr) {
    if (looks_flop_carrying(name)) priced.uncounted[name] += calls;
    return;
  }
  if (op->role == OperatorRole::uncounted) priced.uncounted[name] += calls;
  if (op->role != OperatorRole::leaf && op->role != OperatorRole::cover) return;
  ArgumentList arguments, result;
  for (const Json& value : given->elements()) add(arguments, value);
  if (const Json* first = row.find("result")) {
    add(result, *first);
  } else {
    result.add_unknown();
  }
  Result<OperatorCost> cost = cost_of(*op, arguments.view(), result.view()[0]);
  if (!cost.has_value()) {
    priced.uncounted[name] += calls;
    return;
  }
  Part part = part_named(row.text_at("part"));
  if (part == Part::attention_projections && is_batched(name)) {
    part = Part::attention_scores;
    priced.plain_attention = true;
  }
  FlopCount counted = by_counter(name, *given, cost->model_flop);
  Count count{cost->model_flop, counted, counted};
  add_cost(priced, part, row, count, calls);
  add_difference(priced, name, count, calls);
}

}  // namespace

Part part_named(std::string_view name) {
  for (std::size_t i = 0; i < kPartCount; ++i) {
    if (name_of(static_cast<Part>(i)) == name) return static_cast<Part>(i);
  }
  return Part::mlp;
}

void price_operators(const Json& answer, Recompute recompute, ClassNeed& found) {
  Priced priced{found, recompute, false, {}, {}, {}};
  if (const Json* rows = answer.find("operators")) {
    for (const Json& row : rows->elements()) add_row(priced, row);
  }
  const ParameterCount& parameters = found.parameters;
  double dense = 2.0 * static_cast<double>(found.need.tokens) *
                 static_cast<double>(parameters.by_part[Part::experts]);
  bool chosen = parameters.active < parameters.total;
  if (chosen && priced.experts.to_double() > 0.9 * dense) {
    found.need.notes.push_back({"every_expert_runs", {}});
  }
  if (priced.plain_attention) found.need.notes.push_back({"plain_attention", {}});
  for (const auto& [name, calls] : priced.uncounted) {
    found.need.notes.push_back(
        {"ran_uncounted",
         {{"operator", printable(name, 100)}, {"calls", static_cast<std::int64_t>(calls)}}});
  }
  for (const auto& [what, count] : priced.differing) {
    bool more = count.eager > count.exact;
    FlopCount by = more ? count.eager - count.exact : count.exact - count.eager;
    found.differences.push_back({more ? "flopcounter_counts_more" : "flopcounter_counts_fewer",
                                 {{"flop", by.to_string()}, {"operator", printable(what, 100)}}});
  }
}

}  // namespace mfu
