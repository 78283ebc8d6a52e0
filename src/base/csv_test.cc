#include "base/csv.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

TEST(Csv, reads_quotes_comments_and_keeps_the_line) {
  auto table = parse_csv("\xEF\xBB\xBF# peaks\na,b\n\n1,\"x, \"\"y\"\"\nz\"\r\n2,\n", "peaks.csv");
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ(table->columns, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->rows[0].cells[1], "x, \"y\"\nz");
  EXPECT_EQ(table->rows[0].line, 4u);
  EXPECT_EQ(table->rows[1].line, 6u);
  EXPECT_EQ(table->rows[1].cells[1], "");
}

TEST(Csv, says_where_it_is_broken) {
  auto message = [](const char* text) { return parse_csv(text, "p.csv").error().message; };
  EXPECT_EQ(message("a,b\n1,\"x\n"), "p.csv:2: the quote that opens here is never closed");
  EXPECT_EQ(message("a,b\n1\n"),
            "p.csv:2: 1 cells where the header has 2 columns (the last is '1')");
  EXPECT_EQ(message(""), "p.csv:1: empty; a header line was expected");
  EXPECT_NE(message("a\n\"x\"y\n").find("p.csv:2"), std::string::npos);
}

}  // namespace
}  // namespace mfu
