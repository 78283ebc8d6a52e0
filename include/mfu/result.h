// What a call that input can break returns: a value, or an Error that says what failed, where, and
// what to try next. Used like std::expected (which g++ 12 has only in C++23 mode); failed only
// through fail().
//
//   mfu::Result<int> parse_port(std::string_view text) {
//     if (text.empty()) return mfu::fail(mfu::ErrorCode::invalid_argument, "empty port: give 1 to
//     65535"); return 80;
//   }
//   mfu::Result<int> next_port(std::string_view text) { return MFU_TRY(parse_port(text)) + 1; }
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace mfu {

// By what the caller can do about it.
enum class ErrorCode { invalid_argument, not_found, malformed, unsupported, io };

std::string_view name_of(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string message;
};

// What fail() makes; turns into any Result.
struct Failure {
  Error error;
};

inline Failure fail(ErrorCode code, std::string message) {
  return Failure{Error{code, std::move(message)}};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  Result()
    requires std::is_void_v<T>
      : state_(std::in_place_index<0>) {}
  Result(Value value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure.error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // Contract: has_value().
  const Value& value() const& { return std::get<0>(state_); }
  Value& value() & { return std::get<0>(state_); }
  Value&& value() && { return std::get<0>(std::move(state_)); }
  const Value& operator*() const { return value(); }
  const Value* operator->() const { return &value(); }

  // Contract: not has_value().
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<Value, Error> state_;
};

}  // namespace mfu

// The value of a Result, or return its failure from the enclosing function. One per statement.
#define MFU_TRY(expression)                                                         \
  ({                                                                                \
    auto mfu_try_result = (expression);                                             \
    if (!mfu_try_result.has_value()) return ::mfu::Failure{mfu_try_result.error()}; \
    std::move(mfu_try_result).value();                                              \
  })

// What only a bug can break. On in release builds; never reachable from input.
#define MFU_ASSERT(condition)                                                                   \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      std::fprintf(stderr, "mfu: a bug of ours: %s (%s:%d)\n", #condition, __FILE__, __LINE__); \
      std::abort();                                                                             \
    }                                                                                           \
  } while (false)
