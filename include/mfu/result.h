// Errors, notes and warnings. A call that bad input can break returns a Result: a value, or an
// Error that says what failed, where, and what to try next. A Result is used like std::expected
// (which g++ 12 has only in C++23 mode), and only fail() makes a failed one. A Note is a fact worth
// telling; Diagnostics collects warnings. The library never prints: the command line and the Python
// package print what they find here.
//
//   auto parse_port = [](std::string_view text) -> mfu::Result<int> {
//     if (text.empty()) return mfu::fail(mfu::ErrorCode::invalid_argument, "empty port: give one");
//     return 80;
//   };
//   int next_port = MFU_TRY(parse_port("80")) + 1;  // or return the failure
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace mfu {

// Errors are grouped by what the caller can do about them.
enum class ErrorCode { invalid_argument, not_found, malformed, unsupported, io };

std::string_view name_of(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string message;
};

// What fail() returns. It converts to a failed Result of any type.
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

// One entry of a list inside a note: a kernel or an operator with its time and calls.
struct NotedItem {
  std::string name;
  std::int64_t duration_ns = 0;
  std::uint64_t calls = 0;  // 0: not stated
  bool operator==(const NotedItem&) const = default;
};
using NoteValue = std::variant<std::int64_t, double, std::string, std::vector<NotedItem>>;
using NoteValues = std::vector<std::pair<std::string, NoteValue>>;

// A fact worth telling: a code that scripts may rely on, and the values that belong to it.
// words_of() in mfu/sink.h makes a sentence of it for people.
struct Note {
  Note() = default;
  Note(std::string code_, NoteValues values_)  // NOLINT: two strings would be one too many
      : code(std::move(code_)), values(std::move(values_)) {}
  // A text that mfu did not write, such as a message of a file reader or of a process of a run. It
  // is kept word for word.
  static Note said(std::string text) { return {"said", {{"text", std::move(text)}}}; }
  bool operator==(const Note&) const = default;

  std::string code;
  NoteValues values;
};

class Diagnostics {
 public:
  // Adds a warning, unless the same one is there already.
  void warn(std::string message) {
    if (std::find(warnings_.begin(), warnings_.end(), message) == warnings_.end()) {
      warnings_.push_back(std::move(message));
    }
  }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<std::string> warnings_;
};

}  // namespace mfu

// Gives the value of a Result, or returns its failure from the enclosing function. Use it once per
// statement.
#define MFU_TRY(expression)                                                         \
  ({                                                                                \
    auto mfu_try_result = (expression);                                             \
    if (!mfu_try_result.has_value()) return ::mfu::Failure{mfu_try_result.error()}; \
    std::move(mfu_try_result).value();                                              \
  })

// For conditions that only a bug in mfu can break, never input. It is checked in release builds
// too.
#define MFU_ASSERT(condition)                                                                   \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      std::fprintf(stderr, "mfu: a bug of ours: %s (%s:%d)\n", #condition, __FILE__, __LINE__); \
      std::abort();                                                                             \
    }                                                                                           \
  } while (false)
