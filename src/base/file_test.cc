#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

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
  EXPECT_EQ(read_named_file("/dev/zero", 100).error().code, ErrorCode::unsupported);
  EXPECT_EQ(*read_named_file("/dev/null"), "");
  EXPECT_FALSE(write_file("/dev/null/x", "y").has_value());
}

// A temporary folder that is deleted at the end.
class FileIn : public testing::Test {
 protected:
  FileIn() {
    std::string path = testing::TempDir() + "mfu-file-XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~FileIn() override { std::filesystem::remove_all(folder_); }
  std::string at(const char* name) const { return folder_ + "/" + name; }
  std::string folder_;
};

TEST_F(FileIn, a_regular_file_is_read_and_nothing_else) {
  ASSERT_TRUE(write_file(at("file"), "text").has_value());
  std::filesystem::create_symlink(at("file"), at("link"));
  EXPECT_EQ(*read_file(at("file")), "text");
  EXPECT_EQ(*read_file(at("link")), "text");
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_file(at("pipe")).error().message,
            at("pipe") + " is a pipe, no regular file: it is not read");
  std::filesystem::create_symlink("/dev/zero", at("zero"));
  EXPECT_EQ(read_file(at("zero")).error().code, ErrorCode::malformed);
  EXPECT_EQ(read_file(at("none")).error().code, ErrorCode::not_found);
  EXPECT_EQ(read_file(at("file"), 3).error().code, ErrorCode::unsupported);
}

TEST_F(FileIn, a_folder_of_ours_alone_is_made_and_taken_again) {
  EXPECT_TRUE(make_own_folder(at("mine")).has_value());
  EXPECT_TRUE(make_own_folder(at("mine")).has_value());
  struct stat status = {};
  ASSERT_EQ(stat(at("mine").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST_F(FileIn, a_folder_that_somebody_else_could_have_made_is_refused_with_the_reason) {
  std::filesystem::create_directory(at("mine"));
  std::filesystem::create_symlink(at("mine"), at("link"));
  EXPECT_EQ(make_own_folder(at("link")).error().message,
            at("link") +
                " is not used: it is a symbolic link, not a folder. Remove it if it is not "
                "somebody else's");
  ASSERT_TRUE(write_file(at("file"), "").has_value());
  EXPECT_FALSE(make_own_folder(at("file")).has_value());
  chmod(at("mine").c_str(), 0777);
  EXPECT_NE(make_own_folder(at("mine")).error().message.find("mode 0777"), std::string::npos);
  chmod(at("mine").c_str(), 0700);
  if (geteuid() != 0) return;  // only root can give a folder away
  ASSERT_EQ(chown(at("mine").c_str(), 12345, 12345), 0);
  EXPECT_NE(make_own_folder(at("mine")).error().message.find("belongs to user 12345"),
            std::string::npos);
}

}  // namespace
}  // namespace mfu
