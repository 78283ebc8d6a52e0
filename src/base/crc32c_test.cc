#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace mfu {
namespace {

TEST(Crc32c, GivesTheCheckValueOfItsCatalogue) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  // RFC 3720 B.4: 32 bytes of zeros.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
}

TEST(Crc32c, IsTheSameByTableAndByInstruction) {
  std::string bytes;
  for (unsigned i = 0; i < 300; ++i) {
    EXPECT_EQ(crc32c(bytes), crc32c_by_table(bytes)) << i;
    bytes += static_cast<char>(i * 37 + 11);
  }
}

}  // namespace
}  // namespace mfu
