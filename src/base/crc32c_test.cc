#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace mfu {
namespace {

// From RFC 3720, appendix B.4, and the check value that catalogues of checksums list.
TEST(Crc32c, gives_the_published_values) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

TEST(Crc32c, goes_on_from_what_stood_before) {
  EXPECT_EQ(crc32c("6789", crc32c("12345")), crc32c("123456789"));
}

}  // namespace
}  // namespace mfu
