// Looks up the cost of operators by name and plain arguments, for graphs that are counted without
// being run.
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mfu/observer.h"
#include "mfu/ops.h"
#include "torch/register.h"
#include "torch/thread.h"

namespace {

using mfu::Argument;

Argument argument_of(const mfu_observer_argument& given) {
  constexpr std::array kKinds = {Argument::Kind::absent,   Argument::Kind::tensor,
                                 Argument::Kind::integers, Argument::Kind::integer,
                                 Argument::Kind::number,   Argument::Kind::boolean,
                                 Argument::Kind::unknown};
  Argument argument;
  auto kind = static_cast<std::size_t>(given.kind);
  argument.kind = kind < kKinds.size() ? kKinds[kind] : Argument::Kind::unknown;
  if (given.type != nullptr) argument.type = mfu::parse_element_type(given.type);
  argument.integers = {given.integers, given.integers_count};
  argument.number = given.number;
  return argument;
}

constinit std::atomic<mfu_observer_formula_call> program_formula{nullptr};

mfu_observer_argument argument_for(const Argument& given) {
  using Kind = Argument::Kind;
  int kind = given.kind == Kind::absent     ? 0
             : given.kind == Kind::tensor   ? 1
             : given.kind == Kind::integers ? 2
             : given.kind == Kind::integer  ? 3
             : given.kind == Kind::number   ? 4
             : given.kind == Kind::boolean  ? 5
                                            : 6;
  return {.kind = kind,
          .type = mfu::name_of(given.type).data(),  // a literal
          .integers = given.integers.data(),
          .integers_count = given.integers.size(),
          .number = given.number};
}

// Asks the program's own function for the FLOPs of a call.
mfu::Result<std::uint64_t> by_program(const mfu::UserFormula& formula,
                                      std::span<const Argument> arguments, const Argument& result) {
  mfu_observer_formula_call call = program_formula.load();
  std::vector<mfu_observer_argument> given;
  for (const Argument& each : arguments) given.push_back(argument_for(each));
  mfu_observer_argument last = argument_for(result);
  mfu::observer::Quiet quiet(mfu::observer::this_thread);
  std::int64_t flop =
      call == nullptr ? -1 : call(formula.name.c_str(), given.data(), given.size(), &last);
  if (flop >= 0) return static_cast<std::uint64_t>(flop);
  return mfu::fail(mfu::ErrorCode::unsupported, "its formula could not say what the call cost");
}

const char* keep_cost_text(std::string text) {
  static std::mutex* mutex = new std::mutex;
  static auto* texts = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  return texts->insert(std::move(text)).first->c_str();
}

}  // namespace

int mfu_observer_cost_of(const char* name, const struct mfu_observer_argument* arguments,
                         size_t count, struct mfu_observer_cost* cost) {
  *cost = {
      .hardware_flop = 0, .model_flop = 0, .name = keep_cost_text(name), .type = "", .reason = ""};
  const mfu::Operator* row = mfu::find_operator(name);
  if (row == nullptr) {
    if (!mfu::looks_flop_carrying(name)) return 1;
    cost->reason = "not in the operator table";
    return 2;
  }
  cost->name = keep_cost_text(std::string(row->name));
  cost->reason = keep_cost_text(std::string(row->note));
  if (row->role == mfu::OperatorRole::uncounted) return 2;
  if (row->role == mfu::OperatorRole::free || row->formula == nullptr) return 1;
  std::vector<Argument> given;
  for (size_t i = 0; i < count; ++i) given.push_back(argument_of(arguments[i]));
  mfu::Result<mfu::OperatorCost> result = mfu::cost_of(*row, given);
  if (!result.has_value()) {
    cost->reason = keep_cost_text(result.error().message);
    return 2;
  }
  cost->hardware_flop = result->hardware_flop.low();
  cost->model_flop = result->model_flop.low();
  cost->type = keep_cost_text(std::string(mfu::name_of(result->compute_type)));
  return 0;
}

const char* mfu_observer_formula_by(const char* name, const char* type,
                                    mfu_observer_formula_call call) {
  program_formula.store(call);
  if (call == nullptr) return "";
  mfu::Result<void> added = mfu::add_formula(
      {.name = name, .flop = {}, .where = {}, .type = type, .function = &by_program});
  if (!added.has_value()) return keep_cost_text(added.error().message);
  mfu::observer::watch_operator(name);
  return "";
}

const char* mfu_observer_formula(const char* name, const char* flop, const char* where,
                                 const char* type) {
  mfu::UserFormula formula{.name = name, .flop = flop, .where = {}, .type = type};
  std::string_view lines = where;
  while (!lines.empty()) {
    std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    std::size_t sign = line.find('=');
    if (sign == std::string_view::npos) continue;
    formula.where.emplace_back(line.substr(0, sign), line.substr(sign + 1));
  }
  mfu::Result<void> added = mfu::add_formula(formula);
  if (!added.has_value()) return keep_cost_text(added.error().message);
  mfu::observer::watch_operator(formula.name);
  return "";
}
