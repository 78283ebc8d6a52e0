#include "serve/address.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

TEST(Address, takes_the_host_out_of_its_header) {
  EXPECT_EQ(host_of("127.0.0.1:9464"), "127.0.0.1");
  EXPECT_EQ(host_of("[::1]:80"), "::1");
  EXPECT_EQ(host_of("LocalHost"), "localhost");
  EXPECT_EQ(host_of("[::1"), "");
  EXPECT_EQ(host_of("[::1]"), "::1");
  EXPECT_EQ(host_of("localhost:"), "localhost");
  for (const char* other :
       {"[::1].evil.com", "[::1].evil.com:80", "[::1]80", "localhost:80.evil.com",
        "127.0.0.1:@evil.com", "localhost:123456", "[::1]:80:90"}) {
    EXPECT_EQ(host_of(other), "") << other;
  }
  EXPECT_EQ(host_of(""), "");
}

TEST(Address, knows_loopback_from_names_that_only_look_like_it) {
  for (const char* name : {"localhost", "127.0.0.1", "127.9.9.9", "::1"}) {
    EXPECT_TRUE(is_loopback_name(name)) << name;
  }
  for (const char* name : {"127.0.0.1.evil.example", "evil.example", "", "localhost.evil.example",
                           "127.1", "10.0.0.1", "0.0.0.0"}) {
    EXPECT_FALSE(is_loopback_name(name)) << name;
  }
}

TEST(Address, decodes_what_is_whole_and_refuses_the_rest) {
  EXPECT_EQ(percent_decoded("/a%20b"), "/a b");
  EXPECT_EQ(percent_decoded("%"), std::nullopt);
  EXPECT_EQ(percent_decoded("%2"), std::nullopt);
  EXPECT_EQ(percent_decoded("%zz"), std::nullopt);
  EXPECT_EQ(percent_decoded("%00"), std::nullopt);
}

TEST(Address, finds_a_value_in_a_query) {
  EXPECT_EQ(query_value("a=1&token=x%3d", "token"), "x=");
  EXPECT_EQ(query_value("token", "token"), "");
  EXPECT_EQ(query_value("tokens=1", "token"), std::nullopt);
  EXPECT_EQ(query_value("", "token"), std::nullopt);
}

TEST(Address, compares_secrets) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "ab"));
}

}  // namespace
}  // namespace mfu
