#include "trace/document.h"

namespace mfu {
namespace {

constexpr std::size_t kMostMemberBytes = 1u << 20;
// How much text may be searched in vain for the end of something that has none.
constexpr std::uint64_t kMostWastedBytes = 512u << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

bool read_events(std::string_view text, EventText& event, Layouts& layouts, PackedEvents& to) {
  to.words.clear();
  to.count = 0;
  const char* end = text.data() + text.size();
  for (const char* at = text.data();;) {
    while (at < end && (*at == ',' || is_space(*at))) ++at;
    if (at == end) return true;
    if (*at != '{') return false;
    EventResult result = read_event(at, end, event, layouts);
    if (result.end != EventEnd::whole) return false;
    event.pack(text.data(), to.words);
    ++to.count;
    at = result.next;
  }
}

bool DocumentReader::take_events(std::string_view text, const PackedEvents& events) {
  if (state_ != State::events) return false;
  counts_.events += events.count;
  const std::uint64_t* at = events.words.data();
  for (const std::uint64_t* end = at + events.words.size(); at != end;) {
    at = event_.unpack(at, text.data());
    sink_.event(event_);
  }
  return true;
}

const char* DocumentReader::take(const char* at, const char* end, bool last) {
  while (at < end && !over()) {
    const char* before = at;
    State state = state_;
    switch (state_) {
      case State::start:
        at = start(at, end, last);
        break;
      case State::members:
        at = members(at, end, last);
        break;
      case State::skipping:
        at = skipper_.take(at, end);
        if (skipper_.done()) state_ = State::members;
        break;
      case State::events:
        at = events(at, end, last);
        break;
      case State::after:
      case State::refused:
        break;
    }
    if (at == before && state == state_) break;
  }
  return at;
}

const char* DocumentReader::start(const char* at, const char* end, bool last) {
  at = skip_space(at, end);
  std::string_view text(at, static_cast<std::size_t>(end - at));
  if (!past_mark_) {  // only one mark is skipped, not one per window
    bool mark_may_follow = text.size() < kByteOrderMark.size() && kByteOrderMark.starts_with(text);
    if (mark_may_follow && !last) return at;
    past_mark_ = text.starts_with(kByteOrderMark);
    if (past_mark_) at = skip_space(at + kByteOrderMark.size(), end);
  }
  if (at == end) return at;
  seen_anything_ = true;
  bare_list_ = *at == '[';
  seen_events_ = bare_list_;
  state_ = bare_list_ ? State::events : *at == '{' ? State::members : State::refused;
  return at + 1;
}

// Reads one member of the outermost object, or its end.
const char* DocumentReader::members(const char* at, const char* end, bool last) {
  while (at < end && (is_space(*at) || *at == ',')) ++at;
  if (at == end) return at;
  if (*at == '}') {
    state_ = State::after;
    return at + 1;
  }
  if (*at != '"') {
    cut_ = true;
    state_ = seen_events_ ? State::after : State::refused;
    return at;
  }
  const char* quote = find_closing_quote(at + 1, end);
  const char* value = quote == nullptr ? end : skip_space(quote + 1, end);
  if (value < end && *value == ':') value = skip_space(value + 1, end);
  if (value == end) {
    bool hopeless = last || static_cast<std::size_t>(end - at) > kMostMemberBytes;
    if (hopeless) cut_ = true;
    if (hopeless) state_ = seen_events_ ? State::after : State::refused;
    return at;
  }
  std::string_view name(at + 1, static_cast<std::size_t>(quote - at - 1));
  if (name == "traceEvents" && *value == '[') {
    seen_events_ = true;
    state_ = State::events;
    return value + 1;
  }
  const char* after = skip_value(value, end);
  if (after == nullptr || after == value) {
    bool wait = after == nullptr && !last && static_cast<std::size_t>(end - at) <= kMostMemberBytes;
    if (wait) return at;
    skipper_ = ValueSkipper();
    state_ = State::skipping;
    return after == value ? value + 1 : value;
  }
  sink_.member(name, {value, static_cast<std::size_t>(after - value)});
  return after;
}

const char* DocumentReader::events(const char* at, const char* end, bool last) {
  while (at < end) {
    while (at < end && (*at == ',' || *at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
      ++at;
    if (at == end) return at;
    if (*at == ']') {
      state_ = bare_list_ ? State::after : State::members;
      return at + 1;
    }
    const char* next = *at == '{' ? one_event(at, end, last) : resynchronize(at, end, last);
    if (next == at || over()) return next;
    at = next;
  }
  return at;
}

const char* DocumentReader::one_event(const char* at, const char* end, bool last) {
  EventResult result = read_event(at, end, event_, layouts_);
  if (result.end == EventEnd::whole || result.end == EventEnd::repaired) {
    ++counts_.events;
    counts_.repaired += result.end == EventEnd::repaired;
    sink_.event(event_);
    return result.next;
  }
  bool too_large = static_cast<std::size_t>(end - at) > kMostEventBytes;
  if (result.end == EventEnd::out_of_text && !last && !too_large) return at;
  if (result.end == EventEnd::out_of_text) wasted_bytes_ += static_cast<std::uint64_t>(end - at);
  return resynchronize(at, end, last);
}

// There is no event here. Continues with the next thing that looks like one.
const char* DocumentReader::resynchronize(const char* at, const char* end, bool last) {
  const char* next = wasted_bytes_ > kMostWastedBytes ? nullptr : find_event_start(at + 1, end);
  if (next != nullptr) {
    ++counts_.malformed;
    return next;
  }
  if (last || wasted_bytes_ > kMostWastedBytes) {
    cut_ = true;
    state_ = State::after;
    return at;
  }
  // What looks like an event may begin in the last few bytes.
  constexpr std::ptrdiff_t kLookBack = 64;
  if (end - at <= kLookBack) return at;
  ++counts_.malformed;
  return end - kLookBack;
}

DocumentEnd DocumentReader::end() const {
  if (!seen_anything_) return DocumentEnd::empty;
  if (!seen_events_) {
    return state_ == State::members || state_ == State::skipping ? DocumentEnd::truncated
                                                                 : DocumentEnd::no_document;
  }
  if (cut_) return DocumentEnd::truncated;
  if (state_ == State::after) return DocumentEnd::whole;
  return bare_list_ && state_ == State::events ? DocumentEnd::open_list : DocumentEnd::truncated;
}

}  // namespace mfu
