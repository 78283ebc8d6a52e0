// Where the library puts what is worth a warning. The library never prints: apps and python do,
// from here.
//
//   mfu::Diagnostics diagnostics;
//   auto machine = mfu::detect_machine(diagnostics);
//   for (const std::string& line : diagnostics.warnings()) std::cerr << line << '\n';
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace mfu {

// One of the things that a note lists: a kernel or an operator, its time and calls.
struct NotedItem {
  std::string name;
  std::int64_t duration_ns = 0;
  std::uint64_t calls = 0;  // 0: not told
  bool operator==(const NotedItem&) const = default;
};
using NoteValue = std::variant<std::int64_t, double, std::string, std::vector<NotedItem>>;
using NoteValues = std::vector<std::pair<std::string, NoteValue>>;

// A fact worth telling, as a code that scripts may rely on and the values behind it. Its words are
// made where a person is met: words_of() in mfu/sink.h.
struct Note {
  Note(std::string code_, NoteValues values_)  // NOLINT: two strings would be one too many
      : code(std::move(code_)), values(std::move(values_)) {}
  // What somebody else said, as it stands: a trace's reader, a process of the run.
  Note(std::string text)  // NOLINT(google-explicit-constructor)
      : code("said"), values{{"text", std::move(text)}} {}
  Note(const char* text) : Note(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  bool operator==(const Note&) const = default;

  std::string code;
  NoteValues values;
};

class Diagnostics {
 public:
  // Keeps the first of equal warnings.
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
