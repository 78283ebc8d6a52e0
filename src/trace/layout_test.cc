#include "trace/layout.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace mfu {
namespace {

// Everything that reading an event can give, joined to one text.
std::string outcome(const std::string& text, Layouts& layouts) {
  EventText event;
  EventResult result = read_event(text.data(), text.data() + text.size(), event, layouts);
  std::string all = std::to_string(static_cast<int>(result.end));
  if (result.next != nullptr) all += " to " + std::to_string(result.next - text.data());
  for (std::size_t key = 0; key < kKeyCount; ++key) {
    if (!event.has(static_cast<Key>(key))) continue;
    all += '|' + std::to_string(key) + '=';
    all += event.value(static_cast<Key>(key));
  }
  return all;
}

const std::string kBehind(64, ' ');  // a gap is compared only where much text follows

std::string any_event(std::mt19937& random) {
  auto any = [&](std::vector<std::string> of) { return of[random() % of.size()]; };
  auto space = [&] { return any({"", " ", " ", " ", "  ", "\n    ", "\t", "\r\n"}); };
  auto value = [&] {
    return any({"1", "-2.5", "1661203463029566", "\"X\"", "\"a\\\"b\"", "[1, 2]", "{\"ts\": 3}",
                "true", "\"bare\"quote\"", "\"void f<\"x\">(int)\"", ""});
  };
  auto members = [&](std::size_t count, std::string text) {
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) text += space() + any({",", ",", ",", ",", ",", ",", ",", ";", ",,"});
      text += space() + '"' +
              any({"ph", "ts", "ts", "name", "name", "stream", "device", "x", "cat",
                   "a key that is longer than what is kept of a gap between two values"}) +
              '"' + space() + any({":", ":", ":", ":", ":", ":", ""}) + space() + value();
    }
    return text;
  };
  std::string event = '{' + members(random() % 4, "");
  if (random() % 2 == 0) {
    event += any({",", ""}) + space() + "\"args\":" + space() + '{' + members(random() % 4, "");
    event += space() + any({"}", "}", ""});
  }
  return event + space() + any({"}", "}", "}", ""}) + kBehind;
}

TEST(Layouts, change_nothing_of_what_an_event_says) {
  std::mt19937 random(7);
  Layouts layouts;
  for (int i = 0; i < 20000; ++i) {
    std::string text = any_event(random);
    Layouts fresh;
    std::string expected = outcome(text, fresh);
    ASSERT_EQ(outcome(text, layouts), expected) << text;
    ASSERT_EQ(outcome(text, layouts), expected) << "a second time: " << text;
  }
}

TEST(Layouts, more_space_than_before_is_no_part_of_the_value) {
  Layouts layouts;
  std::string first = R"({"ts": 1, "name": "a"})" + kBehind;
  std::string wider = R"({"ts":   1, "name":  "a"})" + kBehind;
  outcome(first, layouts);
  Layouts fresh;
  EXPECT_EQ(outcome(wider, layouts), outcome(wider, fresh));
}

TEST(Layouts, a_key_of_the_arguments_is_not_one_of_the_event) {
  Layouts layouts;
  std::string inside = R"({"args": {"x": 1, "name": "a"}})" + kBehind;
  std::string outside = R"({"args": {"x": 1}, "name": "a"})" + kBehind;
  for (int i = 0; i < 3; ++i) {
    for (const std::string& text : {inside, outside}) {
      Layouts fresh;
      EXPECT_EQ(outcome(text, layouts), outcome(text, fresh)) << text;
    }
  }
}

TEST(Layouts, a_mended_name_is_mended_again) {
  Layouts layouts;
  std::string broken = "{\"name\": \"f<\"x\">()\", \"ts\": 1}" + kBehind;
  Layouts fresh;
  std::string expected = outcome(broken, fresh);
  EXPECT_NE(expected.find("\"f<\"x\">()\""), std::string::npos);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outcome(broken, layouts), expected);
}

TEST(Layouts, without_any_order_of_keys_they_begin_again) {
  Layouts layouts;
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text = "{\"k" + std::to_string(i) + "\": 1, \"name\": \"a\"}" + kBehind;
    Layouts fresh;
    ASSERT_EQ(outcome(text, layouts), outcome(text, fresh));
  }
}

}  // namespace
}  // namespace mfu
