// Reads a trace file as a stream: an object that has the list of events among other members, or the
// bare list. It reads windows of about a megabyte, so the size of the file does not matter. The
// last event of a window waits for the rest of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/event.h"
#include "trace/layout.h"
#include "trace/scan.h"

namespace mfu {

class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  virtual void event(const EventText& event) = 0;
  // A member of the file other than the list of events, as text. Members beyond a megabyte are left
  // out.
  virtual void member(std::string_view name, std::string_view value) = 0;
};

// Events that were read ahead, each as EventText::pack() writes it.
struct PackedEvents {
  std::vector<std::uint64_t> words;
  std::uint64_t count = 0;
};

// Reads a piece of a list of events. False if it holds anything but whole events and separators;
// then the content of `to` means nothing.
bool read_events(std::string_view text, EventText& event, Layouts& layouts, PackedEvents& to);

struct DocumentCounts {
  std::uint64_t events = 0, malformed = 0, repaired = 0;
};

// What the file turned out to be.
enum class DocumentEnd : std::uint8_t {
  whole,
  open_list,    // a bare list without its closing bracket, which the format allows
  truncated,    // it ends in the middle
  no_document,  // neither an object nor a list, or an object without a list of events
  empty,        // nothing but space
};

class DocumentReader {
 public:
  explicit DocumentReader(DocumentSink& sink) : sink_(sink) {}

  // Reads as much of the text as possible. The rest must be given again, with more text after it.
  // `last`: no more text follows.
  const char* take(const char* at, const char* end, bool last);
  // Takes a piece that was read ahead, if the document is between two events, and returns true.
  // Otherwise it takes nothing.
  bool take_events(std::string_view text, const PackedEvents& events);
  // True if nothing more can be read, so that the caller may stop.
  bool over() const { return state_ == State::after || refused(); }
  bool refused() const { return state_ == State::refused; }  // it is not a trace
  DocumentEnd end() const;
  const DocumentCounts& counts() const { return counts_; }

  // A larger event is not taken for one.
  static constexpr std::size_t kMostEventBytes = 4u << 20;

 private:
  enum class State : std::uint8_t { start, members, skipping, events, after, refused };
  const char* start(const char* at, const char* end, bool last);
  const char* members(const char* at, const char* end, bool last);
  const char* events(const char* at, const char* end, bool last);
  const char* one_event(const char* at, const char* end, bool last);
  const char* resynchronize(const char* at, const char* end, bool last);

  DocumentSink& sink_;
  EventText event_;
  Layouts layouts_;
  DocumentCounts counts_;
  ValueSkipper skipper_;
  State state_ = State::start;
  bool bare_list_ = false, seen_events_ = false, seen_anything_ = false, cut_ = false,
       past_mark_ = false;
  std::uint64_t wasted_bytes_ = 0;
};

}  // namespace mfu
