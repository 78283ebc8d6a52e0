// A trace file as a stream: an object with the list of events among other members, or the bare
// list. Read in windows of about a megabyte, so that the size of the file does not matter; a
// window's last event waits for the rest of it.
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
  // A member of the file beside the list of events, as text; those beyond a megabyte are left out.
  virtual void member(std::string_view name, std::string_view value) = 0;
};

// Events that were read ahead: EventText::pack() of each.
struct PackedEvents {
  std::vector<std::uint64_t> words;
  std::uint64_t count = 0;
};

// Reads a piece of a list of events. False where it is not wholly events, each whole, and what
// separates them: what is in `to` then means nothing.
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

  // Takes what can be read of the text; the rest must come again, with more behind it. `last`:
  // nothing comes behind it.
  const char* take(const char* at, const char* end, bool last);
  // The same of a piece that was read ahead, where the document stands between two events: true.
  // Elsewhere nothing is taken.
  bool take_events(std::string_view text, const PackedEvents& events);
  // Nothing more can be read: the caller may stop.
  bool over() const { return state_ == State::after || refused(); }
  bool refused() const { return state_ == State::refused; }  // no document of ours
  DocumentEnd end() const;
  const DocumentCounts& counts() const { return counts_; }

  // An event larger than this is not one.
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
