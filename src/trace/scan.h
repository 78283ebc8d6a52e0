// The lowest level of the trace reader: walking over JSON text that may end anywhere and may be
// wrong. Every function takes where it stands and where the text ends, and returns where the thing
// ends, or nullptr where the text ends first: the caller then waits for more of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mfu {

// Past spaces, tabs and line ends. Never nullptr.
const char* skip_space(const char* at, const char* end);

// From after an opening quote: the closing one. Control characters and bytes that are not UTF-8 are
// let through.
const char* find_closing_quote(const char* at, const char* end);

// A value of any kind, from its first character to just after its last. Numbers and bare words end
// where a separator stands, so one that touches `end` is not known to be whole: nullptr. Nesting is
// counted, not recursed into: a million levels are a number.
const char* skip_value(const char* at, const char* end);

// The same over text that comes in pieces, for values too large to hold.
class ValueSkipper {
 public:
  // Takes as much as belongs to the value; returns where it stopped: `end`, or just after the
  // value, and then done() holds. `at` is at the value's first character on the first call.
  const char* take(const char* at, const char* end);
  bool done() const { return done_; }

 private:
  std::uint64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false, begun_ = false, done_ = false;
};

// An element of a list of objects that could not be read is left by looking for the next one: a '{'
// that is followed by a quoted word that starts an event ("ph", "cat", "name", "pid", "tid", "ts",
// "args", "id", "dur", "bp", "s"). nullptr: none before `end`.
const char* find_event_start(const char* at, const char* end);

}  // namespace mfu
