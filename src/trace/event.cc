#include "trace/event.h"

#include <bit>
#include <cstring>

#include "trace/layout.h"
#include "trace/scan.h"

namespace mfu {
namespace {

struct KnownKey {
  std::string_view text;
  Key key = Key::count;
};

// Sorted by length, so that a key is only compared with the few of the same length.
constexpr KnownKey kEventKeys[] = {{"ph", Key::ph},   {"ts", Key::ts},     {"id", Key::id},
                                   {"cat", Key::cat}, {"pid", Key::pid},   {"tid", Key::tid},
                                   {"dur", Key::dur}, {"name", Key::name}, {"args", Key::args}};
constexpr KnownKey kArgKeys[] = {
    {"Seq", Key::collective_sequence},
    {"grid", Key::grid},
    {"bytes", Key::bytes},
    {"block", Key::block},
    {"dtype", Key::dtype},
    {"device", Key::device},
    {"stream", Key::stream},
    {"Call stack", Key::call_stack},
    {"Input Dims", Key::input_dims},
    {"Input type", Key::input_types},
    {"Group size", Key::group_size},
    {"correlation", Key::correlation},
    {"External id", Key::external_id},
    {"external id", Key::external_id},
    {"Fwd thread id", Key::forward_thread},
    {"In msg nelems", Key::elements_in},
    {"graph node id", Key::graph_node},
    {"Out msg nelems", Key::elements_out},
    {"Sequence number", Key::sequence},
    {"Concrete Inputs", Key::concrete_inputs},
    {"Collective name", Key::collective},
    {"Module Hierarchy", Key::module_hierarchy},
    {"Process Group Name", Key::group},
    {"Process Group Ranks", Key::ranks},
};
constexpr std::size_t kLongestKey = 19;

constexpr std::uint64_t first_bytes(std::string_view text) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < 8 && i < text.size(); ++i) {
    word |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
  }
  return word;
}

// Where the keys of each length begin in a table. The first eight bytes of a key are compared at
// once.
template <std::size_t N>
struct KeyTable {
  std::array<KnownKey, N> keys;
  std::array<std::uint64_t, N> first;
  std::array<std::uint8_t, kLongestKey + 2> begin{};

  constexpr explicit KeyTable(const KnownKey (&table)[N]) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < N; ++i) {
      keys[i] = table[i];
      first[i] = first_bytes(table[i].text);
    }
    for (std::size_t length = 0; length < begin.size(); ++length) {
      while (at < N && keys[at].text.size() < length) ++at;
      begin[length] = static_cast<std::uint8_t>(at);
    }
  }
  // `room` is how many bytes may be read from the key's beginning.
  Key find(std::string_view text, std::size_t room) const {
    if (text.size() > kLongestKey) return Key::count;
    std::size_t from = begin[text.size()], to = begin[text.size() + 1];
    if (from == to) return Key::count;
    std::uint64_t word = 0;
    if (std::endian::native == std::endian::little && room >= 8) {
      std::memcpy(&word, text.data(), 8);
      if (text.size() < 8) word &= (std::uint64_t{1} << (8 * text.size())) - 1;
    } else {
      word = first_bytes(text);
    }
    for (std::size_t i = from; i < to; ++i) {
      if (first[i] == word && (text.size() <= 8 || keys[i].text.substr(8) == text.substr(8))) {
        return keys[i].key;
      }
    }
    return Key::count;
  }
};
constexpr KeyTable kEventTable{kEventKeys};
constexpr KeyTable kArgTable{kArgKeys};

// Whether the keys inside args can be ignored. In a trace with stacks most events are Python
// frames, and nothing in their args is used. The args of "M" events (names and labels of processes)
// are read as a whole.
bool args_are_idle(const EventText& event) {
  if (event.has(Key::cat)) return event.value(Key::cat) == "\"python_function\"";
  return event.value(Key::ph) == "\"M\"";
}

class ObjectReader {
 public:
  ObjectReader(const char* end, EventText& event, Layouts& layouts)
      : end_(end), event_(event), layouts_(layouts) {}

  // Reads from after '{' to after '}'. nullptr: see problem().
  const char* members(const char* at, bool args) {
    for (bool first = true;; first = false) {
      Key key = Key::count;
      const char* value = nullptr;
      if (const Layouts::Gap* gap = layouts_.follow(at, end_, args)) {
        key = gap->key;
        value = at + gap->size;
      } else {
        const char* gap_begin = at;
        const char* last_end = last_end_;
        at = next_member(at, first);
        if (at == nullptr || closed_) {
          closed_ = false;
          return at;
        }
        value = value_of(at, args, key);
        if (value == nullptr) return nullptr;
        if (last_end_ == last_end) {
          layouts_.learn(gap_begin, value, args, key);
        } else {
          layouts_.lose();  // part of the repaired text is not a gap
        }
      }
      at = take(value, key);
      if (at == nullptr) return nullptr;
    }
  }

  EventEnd problem() const { return problem_; }
  bool repaired() const { return repaired_; }

 private:
  // From after a value or after '{' to the quote of the next key; or to after '}', and then closed_
  // is set.
  const char* next_member(const char* at, bool first) {
    at = skip_space(at, end_);
    if (at == end_) return out_of_text();
    if (first && *at != '}') {
      if (*at == '"') return at;
      at = repair(at);
      if (at == nullptr) return nullptr;
    }
    while (true) {
      if (*at != '}' && *at != ',') {
        at = repair(at);
        if (at == nullptr) return nullptr;
      }
      if (*at == '}') {
        closed_ = true;
        return at + 1;
      }
      at = skip_space(at + 1, end_);
      if (at == end_) return out_of_text();
      if (*at == '"') return at;
      at = repair(at);
      if (at == nullptr) return nullptr;
    }
  }

  // "key": value, from the key's quote to the value's first character.
  const char* value_of(const char* at, bool args, Key& key) {
    const char* begin = at + 1;
    const char* quote = find_closing_quote(begin, end_);
    if (quote == nullptr) return out_of_text();
    std::string_view text(begin, static_cast<std::size_t>(quote - begin));
    auto room = static_cast<std::size_t>(end_ - begin);
    key = args ? kArgTable.find(text, room) : kEventTable.find(text, room);
    at = skip_space(quote + 1, end_);
    if (at == end_) return out_of_text();
    if (*at != ':') return malformed();
    at = skip_space(at + 1, end_);
    return at == end_ ? out_of_text() : at;
  }

  // Reads a value, from its first character to after it.
  const char* take(const char* at, Key key) {
    if (key == Key::args && *at == '{' && !args_are_idle(event_)) return members(at + 1, true);
    const char* after = skip_value(at, end_);
    if (after == nullptr) return out_of_text();
    if (after == at) return malformed();
    last_key_ = key;
    last_value_ = at;
    last_end_ = after;
    if (key != Key::count) event_.set(key, {at, static_cast<std::size_t>(after - at)});
    return after;
  }

  // The last string ended too early. It really ends at a later quote, after which the object closes
  // or continues with another key. Returns where that separator is.
  const char* repair(const char* stuck) {
    if (last_value_ == nullptr || *last_value_ != '"') return malformed();
    // Only a string right before the error can have caused it.
    const char* after = skip_space(last_end_, end_);
    if (after < stuck && *after == ',') after = skip_space(after + 1, end_);
    if (after != stuck) return malformed();
    constexpr std::ptrdiff_t kFarthest = 16 << 10;
    if (event_.repairs_left == 0) return malformed();
    --event_.repairs_left;
    const char* limit = end_ - last_value_ > kFarthest ? last_value_ + kFarthest : end_;
    for (const char* at = last_end_; at < limit; ++at) {
      if (*at == '\n') return malformed();
      if (*at != '"') continue;
      const char* separator = skip_space(at + 1, end_);
      if (separator == end_) return out_of_text();
      bool goes_on = *separator == '}';
      if (*separator == ',') {
        const char* key = skip_space(separator + 1, end_);
        if (key == end_) return out_of_text();
        const char* quote = *key == '"' ? find_closing_quote(key + 1, end_) : nullptr;
        const char* colon = quote == nullptr ? nullptr : skip_space(quote + 1, end_);
        goes_on = colon != nullptr && colon < end_ && *colon == ':';
      }
      if (!goes_on) continue;
      last_end_ = at + 1;
      repaired_ = true;
      if (last_key_ != Key::count) {
        event_.set(last_key_, {last_value_, static_cast<std::size_t>(last_end_ - last_value_)});
      }
      return separator;
    }
    return limit == end_ ? out_of_text() : malformed();
  }

  const char* out_of_text() {
    problem_ = EventEnd::out_of_text;
    return nullptr;
  }
  const char* malformed() {
    problem_ = EventEnd::malformed;
    return nullptr;
  }

  const char* end_;
  EventText& event_;
  Layouts& layouts_;
  EventEnd problem_ = EventEnd::malformed;
  bool repaired_ = false, closed_ = false;
  Key last_key_ = Key::count;
  const char* last_value_ = nullptr;
  const char* last_end_ = nullptr;
};

}  // namespace

EventResult read_event(const char* at, const char* end, EventText& event, Layouts& layouts) {
  event.clear();
  layouts.restart();
  ObjectReader reader(end, event, layouts);
  const char* next = reader.members(at + 1, false);
  if (next == nullptr) return {.end = reader.problem(), .next = nullptr};
  return {.end = reader.repaired() ? EventEnd::repaired : EventEnd::whole, .next = next};
}

}  // namespace mfu
