#include "trace/document.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trace/scan.h"

namespace mfu {
namespace {

struct Collected : DocumentSink {
  void event(const EventText& event) override { names.emplace_back(event.inside(Key::name)); }
  void member(std::string_view name, std::string_view) override { members.emplace_back(name); }
  std::vector<std::string> names, members;
};

struct Outcome {
  std::vector<std::string> names, members;
  DocumentEnd end;
  DocumentCounts counts;
};

// Reads the text in pieces of that size, as windows of a file would bring it.
Outcome read_in_pieces(const std::string& text, std::size_t piece) {
  Collected sink;
  DocumentReader reader(sink);
  std::string window;
  std::size_t at = 0;
  bool last = false;
  while (!last && !reader.over()) {
    std::size_t size = std::min(piece, text.size() - at);
    window.append(text, at, size);
    at += size;
    last = size == 0;
    const char* rest = reader.take(window.data(), window.data() + window.size(), last);
    window.erase(0, static_cast<std::size_t>(rest - window.data()));
  }
  return {sink.names, sink.members, reader.end(), reader.counts()};
}

using Names = std::vector<std::string>;
const std::string kSmall =
    R"({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "a", "ts": 1, "dur": 2, "args": {"grid": [1, 2],
          "x": {"y": []}}},
  {"ph": "X", "name": "b\"}{", "ts": 1},
  {"ph": "i", "name": "c"}
 ], "traceName": "t.json"})";

TEST(Document, is_the_same_in_pieces_of_any_size) {
  for (std::size_t piece = 1; piece < kSmall.size() + 2; ++piece) {
    Outcome outcome = read_in_pieces(kSmall, piece);
    EXPECT_EQ(outcome.names, (Names{"a", "b\\\"}{", "c"})) << piece;
    EXPECT_EQ(outcome.members, (Names{"schemaVersion", "deviceProperties", "traceName"})) << piece;
    EXPECT_EQ(outcome.end, DocumentEnd::whole) << piece;
    EXPECT_EQ(outcome.counts.malformed, 0u);
  }
}

TEST(Document, truncated_at_any_byte_gives_the_events_before) {
  for (std::size_t length = 0; length < kSmall.size(); ++length) {
    Outcome outcome = read_in_pieces(kSmall.substr(0, length), 7);
    EXPECT_NE(outcome.end, DocumentEnd::whole) << length;
    std::size_t whole = 0;
    for (const char* end : {"}}},", "{\", \"ts\": 1}", "\"c\"}"}) {
      whole += kSmall.substr(0, length).find(end) != std::string::npos;
    }
    if (length > kSmall.find("}}}") + 2) whole = std::max<std::size_t>(whole, 1);
    EXPECT_EQ(outcome.names.size(), whole) << length;
  }
}

TEST(Document, takes_a_bare_list_with_or_without_its_end) {
  EXPECT_EQ(read_in_pieces("[{\"name\": \"a\"},{\"name\": \"b\"}]", 5).end, DocumentEnd::whole);
  Outcome open = read_in_pieces("[{\"name\": \"a\"},\n{\"name\": \"b\"},\n", 5);
  EXPECT_EQ(open.end, DocumentEnd::open_list);
  EXPECT_EQ(open.names, (Names{"a", "b"}));
}

TEST(Document, says_what_is_no_trace) {
  EXPECT_EQ(read_in_pieces("", 4).end, DocumentEnd::empty);
  EXPECT_EQ(read_in_pieces(" \n\t ", 1).end, DocumentEnd::empty);
  EXPECT_EQ(read_in_pieces("hello", 4).end, DocumentEnd::no_document);
  EXPECT_EQ(read_in_pieces("{}", 4).end, DocumentEnd::no_document);
  EXPECT_EQ(read_in_pieces("{\"a\": 1}", 4).end, DocumentEnd::no_document);
  EXPECT_EQ(read_in_pieces("{\"traceEvents\": 5}", 4).end, DocumentEnd::no_document);
  EXPECT_EQ(read_in_pieces(std::string(3, '\0'), 4).end, DocumentEnd::no_document);
  for (std::size_t piece : {1, 2, 3, 8}) {
    EXPECT_EQ(read_in_pieces("\xef\xbb\xbf[]", piece).end, DocumentEnd::whole) << piece;
    EXPECT_EQ(read_in_pieces("\n\xef\xbb\xbf\xef\xbb\xbf[]", piece).end, DocumentEnd::no_document)
        << piece;
  }
}

TEST(Document, mends_a_name_with_a_bare_quote) {
  Outcome outcome = read_in_pieces(
      R"([{"ph":"X","name":"a "quoted" name","ts":1},{"ph":"X","name":"x", y","ts":2},{"name":"z"}])",
      9);
  EXPECT_EQ(outcome.names, (Names{"a \"quoted\" name", "x\", y", "z"}));
  EXPECT_EQ(outcome.counts.repaired, 2u);
  EXPECT_EQ(outcome.counts.malformed, 0u);
}

TEST(Document, mending_never_reaches_into_the_next_event) {
  Outcome outcome = read_in_pieces(
      "[{\"name\":\"a\",\"args\":{5}},{\"ph\":\"X\",\"name\":\"b\"},\n"
      "{\"name\":\"c\"d,\n\"ts\":1},{\"ph\":\"X\",\"name\":\"e\"}]",
      1000);
  EXPECT_EQ(outcome.names, (Names{"b", "e"}));
  EXPECT_EQ(outcome.counts.repaired, 0u);
  EXPECT_EQ(outcome.counts.malformed, 2u);
}

TEST(Document, goes_on_after_an_event_that_is_none) {
  for (const char* broken :
       {"{\"ph\" \"X\"}", "{1: 2}", "17", "\"text\"", "{\"ph\":}", "[[]]", "{,}", "nonsense"}) {
    std::string text = std::string("[{\"name\":\"a\"},") + broken + ",{\"name\":\"b\"}]";
    Outcome outcome = read_in_pieces(text, 1000);
    EXPECT_EQ(outcome.names.front(), "a") << broken;
    EXPECT_EQ(outcome.names.back(), "b") << broken;
    EXPECT_EQ(outcome.end, DocumentEnd::whole) << broken;
  }
}

TEST(Document, a_missing_bracket_does_not_swallow_the_rest) {
  std::string text =
      "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\",\"args\":{\"Input Dims\":[[1,2],\"x\":1}},\n";
  for (int i = 0; i < 1000; ++i) text += "{\"ph\":\"X\",\"name\":\"b\"},\n";
  Outcome outcome = read_in_pieces(text + "{\"ph\":\"X\",\"name\":\"c\"}]}", 4096);
  EXPECT_EQ(outcome.names.size(), 1001u);
  EXPECT_EQ(outcome.names.back(), "c");
}

TEST(Document, a_million_levels_of_nesting_are_a_number) {
  std::string deep(1000000, '[');
  Outcome outcome = read_in_pieces("[{\"name\":\"a\",\"args\":{\"x\":" + deep +
                                       std::string(1000000, ']') + "}},{\"name\":\"b\"}]",
                                   1 << 20);
  EXPECT_EQ(outcome.names, (Names{"a", "b"}));
  outcome = read_in_pieces(
      "{\"x\":" + deep + std::string(1000000, ']') + ",\"traceEvents\":[{\"name\":\"b\"}]}", 4096);
  EXPECT_EQ(outcome.names, (Names{"b"}));
  EXPECT_EQ(read_in_pieces(deep, 4096).end, DocumentEnd::truncated);
}

TEST(Document, members_too_large_to_hold_are_stepped_over) {
  std::string large = "{\"INFO\": [\"" + std::string(3 << 20, 'x') +
                      "\\\"]\"], \"traceEvents\": [{\"name\":\"a\"}]}";
  Outcome outcome = read_in_pieces(large, 1 << 18);
  EXPECT_EQ(outcome.names, (Names{"a"}));
  EXPECT_EQ(outcome.end, DocumentEnd::whole);
}

TEST(Scan, skips_values_whole) {
  for (const std::string value :
       {"1", "-1.5e3", "\"a\\\"b\\\\\"", "[1,[2,\"]\"]]", "{\"a\":{\"b\":\"}\"}}", "null", "NaN"}) {
    std::string text = value + ", rest of the text that is longer than a stride";
    EXPECT_EQ(skip_value(text.data(), text.data() + text.size()), text.data() + value.size())
        << value;
    for (std::size_t cut = 0; cut < value.size(); ++cut) {
      const char* after = skip_value(text.data(), text.data() + cut);
      EXPECT_EQ(after, nullptr) << value << " cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace mfu
