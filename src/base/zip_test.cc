#include "base/zip.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

TEST(Zip, what_was_packed_unpacks_to_the_same) {
  for (std::string bytes : {std::string(), std::string("a"), std::string(100'000, 'x')}) {
    Result<std::string> again = unzipped(zipped(bytes), bytes.size());
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(*again, bytes);
  }
}

TEST(Zip, another_size_than_was_said_is_refused) {
  std::string packed = zipped("twelve bytes");
  EXPECT_FALSE(unzipped(packed, 11).has_value());
  EXPECT_FALSE(unzipped(packed, 13).has_value());
}

TEST(Zip, damage_is_refused) {
  std::string packed = zipped(std::string(1000, 'y'));
  EXPECT_FALSE(unzipped(packed.substr(0, packed.size() / 2), 1000).has_value());
  EXPECT_FALSE(unzipped("not zstd at all", 1000).has_value());
}

}  // namespace
}  // namespace mfu
