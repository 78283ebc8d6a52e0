// One event of a trace as text: which keys it has and where their values are. Nothing is converted
// until it is asked for, because most of a trace never is.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mfu {

// The keys that we know, of the event itself and of its "args". Old and new spellings share one
// value.
enum class Key : std::uint8_t {
  ph,
  cat,
  name,
  pid,
  tid,
  ts,
  dur,
  id,
  args,
  // args
  device,
  stream,
  correlation,
  external_id,
  bytes,
  grid,
  block,
  graph_node,
  sequence,
  forward_thread,
  input_dims,
  input_types,
  concrete_inputs,
  call_stack,
  module_hierarchy,
  collective,
  elements_in,
  elements_out,
  group_size,
  dtype,
  group,
  ranks,
  collective_sequence,
  count
};
inline constexpr std::size_t kKeyCount = static_cast<std::size_t>(Key::count);

class Layouts;  // trace/layout.h

class EventText {
 public:
  void clear() { seen_ = 0; }
  bool has(Key key) const { return (seen_ >> static_cast<unsigned>(key) & 1) != 0; }
  // The value as written; a string includes its quotes. Empty if the key is missing.
  std::string_view value(Key key) const {
    return has(key) ? values_[static_cast<std::size_t>(key)] : std::string_view();
  }
  // The text between the quotes of a string, or the value itself if it is no string.
  std::string_view inside(Key key) const {
    std::string_view text = value(key);
    if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
    return text;
  }
  // How many broken strings may still be repaired. A file that is broken everywhere is not worth
  // it.
  std::uint32_t repairs_left = 10000;

  // A compact form: which keys there are, then where in the text from `base` each value is. The
  // text is shorter than 4 GB.
  void pack(const char* base, std::vector<std::uint64_t>& to) const {
    to.push_back(seen_);
    for (std::uint64_t left = seen_; left != 0; left &= left - 1) {
      std::string_view value = values_[static_cast<std::size_t>(std::countr_zero(left))];
      to.push_back(static_cast<std::uint64_t>(value.data() - base) << 32 | value.size());
    }
  }
  // Returns where the next packed event is.
  const std::uint64_t* unpack(const std::uint64_t* from, const char* base) {
    seen_ = *from++;
    for (std::uint64_t left = seen_; left != 0; left &= left - 1) {
      values_[static_cast<std::size_t>(std::countr_zero(left))] = {base + (*from >> 32),
                                                                   *from & UINT32_MAX};
      ++from;
    }
    return from;
  }

  void set(Key key, std::string_view value) {
    values_[static_cast<std::size_t>(key)] = value;
    seen_ |= std::uint64_t{1} << static_cast<unsigned>(key);
  }

 private:
  std::array<std::string_view, kKeyCount> values_;
  std::uint64_t seen_ = 0;
};

enum class EventEnd : std::uint8_t { whole, repaired, malformed, out_of_text };

// Reads the event that starts at `at` (a '{'). If it is whole or was repaired, `next` is just after
// it. A string with a bare quote in it (kernel names of some compilers) extends to the next quote
// after which the object continues: `repaired`.
struct EventResult {
  EventEnd end = EventEnd::malformed;
  const char* next = nullptr;
};
EventResult read_event(const char* at, const char* end, EventText& event, Layouts& layouts);

}  // namespace mfu
