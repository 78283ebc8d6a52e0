#include "base/text.h"

#include <gtest/gtest.h>

#include "base/suggest.h"

namespace mfu {
namespace {

TEST(Text, printable_text_has_no_control_bytes_and_ends) {
  EXPECT_EQ(printable("NVIDIA\x01\x1b[31m \xff H100"), "NVIDIA??[31m ? H100");
  EXPECT_EQ(printable("grün"), "grün");
  EXPECT_EQ(printable(std::string(500, 'x'), 10), "xxxxxxxxxx");
}

TEST(Text, what_controls_a_terminal_or_turns_its_text_is_not_printed) {
  EXPECT_EQ(printable("a\xC2\x9B[31mb"), "a?[31mb");           // U+009B: an escape sequence
  EXPECT_EQ(printable("a\xC2\x85z"), "a?z");                   // U+0085: a line end
  EXPECT_EQ(printable("x\xE2\x80\xAEgnp.exe"), "x?gnp.exe");   // U+202E: right to left override
  EXPECT_EQ(printable("x\xE2\x81\xA6y\xE2\x81\xA9"), "x?y?");  // U+2066, U+2069: isolates
  EXPECT_EQ(printable("x\xE2\x80\xA8y"), "x?y");               // U+2028: a line separator
  EXPECT_EQ(printable("a\x7F\x1B]0;title\x07"), "a??]0;title?");
  EXPECT_EQ(printable("模型 é שלום 🚀"), "模型 é שלום 🚀");
}

TEST(Text, bytes_that_no_code_point_has_are_not_utf8) {
  EXPECT_EQ(printable("\xE0\x82\x9B"), "???");       // U+009B in an overlong encoding
  EXPECT_EQ(printable("\xC1\x9B"), "??");            // '[' in an overlong encoding
  EXPECT_EQ(printable("\xED\xA0\x80"), "???");       // a surrogate
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "????");  // beyond U+10FFFF
  EXPECT_EQ(printable("\x9B"), "?");                 // C1 as one byte, as Latin-1 terminals read it
}

// Tries each code point by itself: only harmless ones are printed, and no harmless one is replaced.
TEST(Text, every_code_point_is_printed_or_replaced) {
  for (std::uint32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    if (code < 0x80) {
      text = static_cast<char>(code);
    } else if (code < 0x800) {
      text = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    } else if (code < 0x10000) {
      text = {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
              static_cast<char>(0x80 | (code & 0x3F))};
    } else {
      text = {static_cast<char>(0xF0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 0x3F)),
              static_cast<char>(0x80 | (code >> 6 & 0x3F)),
              static_cast<char>(0x80 | (code & 0x3F))};
    }
    ASSERT_EQ(utf8_sequence_length(text), text.size()) << code;
    ASSERT_EQ(utf8_code(text), code);
    ASSERT_EQ(printable(text), is_harmless(code) ? text : "?") << code;
  }
}

TEST(Text, a_number_is_the_whole_text_and_finite) {
  EXPECT_EQ(parse_number("989.4"), 989.4);
  for (const char* wrong : {"", "1x", "nan", "inf", "1e999", " 1", "0x10"}) {
    EXPECT_FALSE(parse_number(wrong).has_value()) << wrong;
  }
  EXPECT_FALSE(parse_count("-1").has_value());
  EXPECT_FALSE(parse_count("18446744073709551616").has_value());
}

TEST(Text, distance_counts_letters_changed_and_neighbours_swapped) {
  EXPECT_EQ(edit_distance("peak", "peak"), 0u);
  EXPECT_EQ(edit_distance("paek", "peak"), 1u);
  EXPECT_EQ(edit_distance("", "peak"), 4u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Text, the_nearest_names_come_first_and_far_ones_not_at_all) {
  std::vector<std::string> names = {"peak", "plan", "doctor", "peek"};
  EXPECT_EQ(closest("paek", names, 1), std::vector<std::string>{"peak"});
  EXPECT_TRUE(closest("quantum", names, 3).empty());
}

}  // namespace
}  // namespace mfu
