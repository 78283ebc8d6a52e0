#include "sinks/table.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace mfu {
namespace {

TEST(Table, aligns_columns_and_wraps_the_last_one_to_the_width) {
  Table table({{"type"}, {"dense", Align::right}, {"source"}});
  table.add({"bf16", "989.4", "one two three four five six"});
  table.add({"fp8", "1,979", "x"});
  EXPECT_EQ(table.text({.width = 32}),
            "type  dense  source\n"
            "bf16  989.4  one two three four\n"
            "             five six\n"
            "fp8   1,979  x\n");
}

TEST(Table, no_line_is_wider_than_asked_at_any_sensible_width) {
  Table table({{"a"}, {"b"}});
  table.add({"Größe", "many words that have to go on another line sooner or later"});
  for (std::size_t width = 30; width < 120; ++width) {
    std::string text = table.text({.width = width});
    for (std::string_view line : split(text, '\n')) {
      EXPECT_LE(display_width(line), width);
    }
  }
}

TEST(Table, colour_only_where_the_style_has_it) {
  EXPECT_EQ(inked("x", Ink::red, {.color = false}), "x");
  EXPECT_EQ(inked("x", Ink::red, {.color = true}), "\x1b[31mx\x1b[0m");
}

TEST(TerminalText, keeps_lines_and_our_ink_and_nothing_that_controls) {
  TextStyle plain, colored{.color = true};
  std::string text = inked("MFU", Ink::green, colored) + "\n\ta\x1b[2J\x1b]0;x\x07\xC2\x9B[1m";
  EXPECT_EQ(terminal_text(text, colored), "\x1b[32mMFU\x1b[0m\n\ta?[2J?]0;x??[1m");
  EXPECT_EQ(terminal_text(text, plain), "?[32mMFU?[0m\n\ta?[2J?]0;x??[1m");
  EXPECT_EQ(terminal_text("\x1b[8mhidden\r", colored), "?[8mhidden?");  // no colour of ours
  EXPECT_EQ(terminal_text("", plain), "");
}

}  // namespace
}  // namespace mfu
