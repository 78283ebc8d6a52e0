#include "trace/number.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace mfu {
namespace {

TEST(ParseNs, reads_what_kineto_writes) {
  EXPECT_EQ(parse_ns("1695835542481129"), 1695835542481129000);
  EXPECT_EQ(parse_ns("1365627862814.773"), 1365627862814773);
  EXPECT_EQ(parse_ns("4.4"), 4400);
  EXPECT_EQ(parse_ns("0"), 0);
  EXPECT_EQ(parse_ns("1712187102000000.5"), 1712187102000000500);
}

TEST(ParseNs, keeps_the_nanosecond_that_a_double_loses) {
  // 1.7e15 µs: there a double is exact only to 0.25 µs.
  EXPECT_EQ(parse_ns("1700000000000000.001"), 1700000000000000001);
  EXPECT_EQ(parse_ns("1700000000000000.999"), 1700000000000000999);
}

TEST(ParseNs, reads_exponents_signs_and_strings) {
  EXPECT_EQ(parse_ns("1.7e15"), 1700000000000000000);
  EXPECT_EQ(parse_ns("1.5E-3"), 2);  // 1.5 ns, half away from zero
  EXPECT_EQ(parse_ns("-2.25"), -2250);
  EXPECT_EQ(parse_ns("\"12.5\""), 12500);
  EXPECT_EQ(parse_ns("+3"), 3000);
  EXPECT_EQ(parse_ns("0.0000000000000000000000000000000000001"), 0);
  EXPECT_EQ(parse_ns("0e999999999999"), 0);
}

TEST(ParseNs, rounds_beyond_the_nanosecond) {
  EXPECT_EQ(parse_ns("1.2344"), 1234);
  EXPECT_EQ(parse_ns("1.2345"), 1235);
  EXPECT_EQ(parse_ns("-1.2345"), -1235);
  EXPECT_EQ(parse_ns("0.00049999"), 0);
}

TEST(ParseNs, refuses_what_is_no_time) {
  for (const char* text :
       {"", "NaN", "Infinity", "-Infinity", "null", "abc", "1.2.3", "1e", "-", ".", "1e99",
        "99999999999999999999", "9300000000000000", "[1]", "{}", "true"}) {
    EXPECT_EQ(parse_ns(text), std::nullopt) << text;
  }
}

TEST(ParseNs, is_exact_for_every_way_of_writing_it) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    auto ns =
        static_cast<std::int64_t>(random() % (random() % 2 ? 4000000000000000000u : 5000000u));
    std::string digits = std::to_string(ns / 1000),
                fraction = std::to_string(1000 + ns % 1000).substr(1);
    EXPECT_EQ(parse_ns(digits + "." + fraction), ns);
    EXPECT_EQ(parse_ns("-" + digits + "." + fraction), -ns);
    EXPECT_EQ(parse_ns(digits + fraction + "e-3"), ns);
    EXPECT_EQ(parse_ns(digits + "." + fraction + "000000"), ns);
  }
}

TEST(ParseId, reads_ids_of_any_size) {
  EXPECT_EQ(parse_id("42"), 42);
  EXPECT_EQ(parse_id("-1"), -1);
  EXPECT_EQ(parse_id("\"7\""), 7);
  EXPECT_EQ(parse_id("5.0"), 5);
  EXPECT_EQ(parse_id("18446744073709551615"), -1);  // wraps around, and stays distinct
  EXPECT_NE(parse_id("18446744073709551617"), parse_id("18446744073709551618"));
  EXPECT_EQ(parse_id("stream 7"), std::nullopt);
  EXPECT_EQ(parse_id(""), std::nullopt);
  EXPECT_EQ(parse_id("NaN"), std::nullopt);
}

}  // namespace
}  // namespace mfu
