#include "base/file.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

TEST(File, what_was_written_is_read_back_and_folders_are_made) {
  std::string path = testing::TempDir() + "mfu_file_test/deep/file";
  ASSERT_TRUE(write_file(path, "one").has_value());
  ASSERT_TRUE(write_file(path, std::string("two\0", 4)).has_value());
  EXPECT_EQ(*read_file(path), std::string("two\0", 4));
}

TEST(File, failures_name_the_path_and_the_reason) {
  EXPECT_EQ(read_file("/no/such/file").error().message,
            "cannot open /no/such/file: No such file or directory");
  EXPECT_EQ(read_file("/tmp").error().message, "/tmp is a folder, not a file");
  EXPECT_EQ(read_file("/dev/zero", 100).error().code, ErrorCode::unsupported);
  EXPECT_FALSE(write_file("/dev/null/x", "y").has_value());
}

}  // namespace
}  // namespace mfu
