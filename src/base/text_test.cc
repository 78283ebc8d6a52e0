#include "base/text.h"

#include <gtest/gtest.h>

#include "mfu/suggest.h"

namespace mfu {
namespace {

TEST(Text, printable_text_has_no_control_bytes_and_ends) {
  EXPECT_EQ(printable("NVIDIA\x01\x1b[31m \xff H100"), "NVIDIA??[31m ? H100");
  EXPECT_EQ(printable("grün"), "grün");
  EXPECT_EQ(printable(std::string(500, 'x'), 10), "xxxxxxxxxx");
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
