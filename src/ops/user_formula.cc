#include "ops/user_formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <deque>
#include <mutex>
#include <string>

#include "ops/reading.h"

namespace mfu {
namespace {

constexpr std::size_t kLongest = 1000;  // characters of one expression
constexpr int kDeepest = 32;
constexpr std::size_t kMostNames = 32;  // of one `where`

// Reads and evaluates an expression in one pass. Without a call it only checks the form, with 1 for
// every argument.
class Reader {
 public:
  Reader(const UserFormula& formula, const Call* call) : formula_(formula), call_(call) {}

  Result<std::int64_t> read(std::string_view text) {
    if (text.size() > kLongest) return complain(text, 0, "it is longer than 1000 characters");
    if (++depth_ > kDeepest) return complain(text, 0, "it is nested too deeply");
    std::string_view outer = text_;
    std::size_t place = place_;
    text_ = text;
    place_ = 0;
    Result<std::int64_t> value = sum();
    if (value && skip() != text_.size()) value = complain(text_, place_, "an operator is missing");
    text_ = outer;
    place_ = place;
    --depth_;
    return value;
  }

 private:
  std::size_t skip() {
    while (place_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[place_]))) {
      ++place_;
    }
    return place_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(place_).starts_with(token)) return false;
    place_ += token.size();
    return true;
  }
  Failure complain(std::string_view text, std::size_t place, std::string_view what) const {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the formula of {}: {} at character {} of \"{}\"", formula_.name, what,
                            place + 1, text.substr(0, 80)));
  }
  Failure complain(std::string_view what) const { return complain(text_, place_, what); }

  Result<std::int64_t> sum() {
    std::int64_t value = MFU_TRY(product());
    while (true) {
      bool plus = take("+");
      if (!plus && !take("-")) return value;
      std::int64_t other = MFU_TRY(product());
      bool over = plus ? __builtin_add_overflow(value, other, &value)
                       : __builtin_sub_overflow(value, other, &value);
      if (over) return complain("a number is too large");
    }
  }
  Result<std::int64_t> product() {
    std::int64_t value = MFU_TRY(factor());
    while (true) {
      bool times = take("*");
      bool divides = !times && (take("//") || take("/"));
      if (!times && !divides && !take("%")) return value;
      std::int64_t other = MFU_TRY(factor());
      if (times) {
        if (__builtin_mul_overflow(value, other, &value)) return complain("a number is too large");
      } else if (other <= 0) {
        return complain("a division by what is not positive");
      } else {
        value = divides ? value / other : value % other;
      }
    }
  }
  Result<std::int64_t> factor() {
    if (++depth_ > kDeepest) return complain("it is nested too deeply");
    Result<std::int64_t> value = bare_factor();
    --depth_;
    return value;
  }
  Result<std::int64_t> bare_factor() {
    if (take("(")) {
      std::int64_t value = MFU_TRY(sum());
      if (!take(")")) return complain("a closing parenthesis is missing");
      return value;
    }
    skip();
    if (place_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[place_]))) {
      return number();
    }
    return name();
  }
  Result<std::int64_t> number() {
    std::int64_t value = 0;
    while (place_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[place_]))) {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[place_] - '0', &value)) {
        return complain("a number is too large");
      }
      ++place_;
    }
    return value;
  }
  std::string_view word() {
    std::size_t first = skip();
    auto is_part = [](unsigned char each) { return std::isalnum(each) != 0 || each == '_'; };
    while (place_ < text_.size() && is_part(static_cast<unsigned char>(text_[place_]))) ++place_;
    return text_.substr(first, place_ - first);
  }
  Result<std::int64_t> name() {
    std::string_view found = word();
    if (found.empty()) return complain("a number or a name is missing");
    if (found == "min" || found == "max" || found == "cdiv") return function(found);
    for (const auto& [key, value] : formula_.where) {
      if (key == found) return read(value);
    }
    if (found == "result") return argument(call_ != nullptr ? &call_->result : nullptr, found);
    bool numbered = found.size() > 1 && found[0] == 'a' &&
                    std::all_of(found.begin() + 1, found.end(),
                                [](unsigned char each) { return std::isdigit(each) != 0; });
    if (!numbered || found.size() > 4) {
      return complain(fmt::format("{} is neither in `where` nor an argument (a0, a1, …)", found));
    }
    std::size_t index = 0;
    for (char each : found.substr(1)) index = index * 10 + static_cast<std::size_t>(each - '0');
    if (call_ == nullptr) return argument(nullptr, found);
    if (index >= call_->arguments.size()) {
      return complain(fmt::format("the call has no argument {}", found));
    }
    return argument(&call_->arguments[index], found);
  }
  Result<std::int64_t> function(std::string_view name) {
    if (!take("(")) return complain("an opening parenthesis is missing");
    std::int64_t first = MFU_TRY(sum());
    if (!take(",")) return complain("a second argument is missing");
    std::int64_t second = MFU_TRY(sum());
    if (!take(")")) return complain("a closing parenthesis is missing");
    if (name == "min") return std::min(first, second);
    if (name == "max") return std::max(first, second);
    if (second <= 0) return complain("a division by what is not positive");
    return first / second + (first % second > 0 ? 1 : 0);
  }
  // If `given` is null, only the form is checked.
  Result<std::int64_t> argument(const Argument* given, std::string_view name) {
    if (!take(".")) {
      if (given == nullptr) return 1;
      bool whole = given->kind == Argument::Kind::integer || given->kind == Argument::Kind::boolean;
      if (!whole || given->integers.empty()) {
        return complain(fmt::format("{} is no whole number", name));
      }
      return given->integers[0];
    }
    std::string_view part = word();
    bool tensor = given != nullptr && given->kind == Argument::Kind::tensor;
    if (given != nullptr && !tensor) return complain(fmt::format("{} is no tensor", name));
    if (part == "numel") return tensor ? static_cast<std::int64_t>(elements(*given)) : 1;
    if (part == "dim") return tensor ? static_cast<std::int64_t>(given->integers.size()) : 1;
    if (part != "shape") return complain("after the dot comes shape[…], numel or dim");
    if (!take("[")) return complain("an opening bracket is missing");
    bool from_end = take("-");
    std::int64_t index = MFU_TRY(sum());
    if (!take("]")) return complain("a closing bracket is missing");
    if (!tensor) return 1;
    auto rank = static_cast<std::int64_t>(given->integers.size());
    if (from_end) index = rank - index;
    if (index < 0 || index >= rank) {
      return complain(fmt::format("{} has no such dimension", name));
    }
    return given->integers[static_cast<std::size_t>(index)];
  }
  static std::uint64_t elements(const Argument& tensor) {
    std::uint64_t product = 1;
    for (std::int64_t size : tensor.integers) {
      product *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0));
    }
    return product;
  }

  const UserFormula& formula_;
  const Call* call_;
  std::string_view text_;
  std::size_t place_ = 0;
  int depth_ = 0;
};

// Kept until the process ends, because the kernel of an operator keeps a pointer to its row.
struct Kept {
  UserFormula formula;
  OperatorFormula layout;
  Operator row;
};

struct Registry {
  std::mutex mutex;
  std::deque<Kept> kept;
};

constinit std::atomic<std::uint64_t> added{0};

Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}

}  // namespace

Result<void> add_formula(const UserFormula& formula) {
  if (formula.name.empty()) return fail(ErrorCode::invalid_argument, "a formula has no name");
  if (formula.where.size() > kMostNames) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the formula of {}: more than 32 names in `where`", formula.name));
  }
  if (!formula.type.empty() && parse_element_type(formula.type) == ElementType::unknown) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("the formula of {}: no data type is called {}", formula.name, formula.type));
  }
  if (formula.function == nullptr) MFU_TRY(Reader(formula, nullptr).read(formula.flop));
  std::lock_guard lock(registry().mutex);
  Kept& kept = registry().kept.emplace_back();
  kept.formula = formula;
  kept.layout.layout = UserLayout{&kept.formula};
  kept.row = {.name = kept.formula.name,
              .kind = OperatorKind::matmul,
              .role = OperatorRole::cover,
              .formula = &kept.layout,
              .note = "a formula of the user's"};
  added.fetch_add(1, std::memory_order_release);
  return {};
}

std::uint64_t formulas_added() {
  return added.load(std::memory_order_acquire);
}

const Operator* find_user_operator(std::string_view name) {
  std::lock_guard lock(registry().mutex);
  for (auto each = registry().kept.rbegin(); each != registry().kept.rend(); ++each) {
    if (each->formula.name == name) return &each->row;
  }
  return nullptr;
}

Result<std::uint64_t> user_flop(const UserFormula& formula, const Call& call) {
  if (formula.function != nullptr) return formula.function(formula, call.arguments, call.result);
  std::int64_t flop = MFU_TRY(Reader(formula, &call).read(formula.flop));
  if (flop < 0) {
    return fail(ErrorCode::malformed,
                fmt::format("the formula of {} came to {} FLOP", formula.name, flop));
  }
  return static_cast<std::uint64_t>(flop);
}

Result<OperatorCost> user_cost(const UserLayout& layout, const Call& call) {
  std::uint64_t flop = MFU_TRY(user_flop(*layout.formula, call));
  OperatorCost cost = MFU_TRY(counted(flop, flop));
  if (!layout.formula->type.empty()) {
    cost.compute_type = parse_element_type(layout.formula->type);
    return cost;
  }
  for (const Argument& each : call.arguments) {
    if (each.kind != Argument::Kind::tensor) continue;
    cost.compute_type = each.type;
    break;
  }
  return cost;
}

}  // namespace mfu
