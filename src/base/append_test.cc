#include "base/append.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"

namespace mfu {
namespace {

class Append : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "append." + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(Append, makes_the_folder_and_grows) {
  std::string path = folder_ + "/a/b.log";
  {
    Result<AppendFile> file = AppendFile::open(path, true);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_TRUE(file->was_empty());
    EXPECT_TRUE(file.value().append("one\n").has_value());
  }
  Result<AppendFile> again = AppendFile::open(path, true);
  EXPECT_FALSE(again->was_empty());
  EXPECT_TRUE(again.value().append("two\n").has_value());
  EXPECT_EQ(*read_file(path), "one\ntwo\n");
}

TEST_F(Append, cuts_off_the_half_line_of_a_killed_process) {
  std::string path = folder_ + "/torn.log";
  for (const char* torn : {"{\"step\":1}\n{\"st", "{\"st"}) {
    ASSERT_TRUE(write_file(path, torn).has_value());
    Result<AppendFile> file = AppendFile::open(path, true);
    ASSERT_TRUE(file.value().append("{}\n").has_value());
    std::string whole(torn);
    whole.erase(whole.rfind('\n') == std::string::npos ? 0 : whole.rfind('\n') + 1);
    EXPECT_EQ(*read_file(path), whole + "{}\n");
  }
}

TEST_F(Append, takes_back_what_did_not_fit) {
  // A limit on file sizes refuses the rest of a write, just as a full disk does.
  std::string path = folder_ + "/full.log";
  Result<AppendFile> file = AppendFile::open(path, true);
  ASSERT_TRUE(file.value().append("whole\n").has_value());
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = {.rlim_cur = 10, .rlim_max = before.rlim_max};
  auto* old = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  Result<void> written = file.value().append("this does not fit\n");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  EXPECT_FALSE(written.has_value());
  EXPECT_EQ(*read_file(path), "whole\n");
}

TEST_F(Append, says_where_and_why_not) {
  Result<AppendFile> full = AppendFile::open("/dev/full", true);
  ASSERT_TRUE(full.has_value());
  Result<void> written = full.value().append("x\n");
  ASSERT_FALSE(written.has_value());
  EXPECT_NE(written.error().message.find("/dev/full"), std::string::npos);
  Result<AppendFile> nowhere = AppendFile::open("/proc/nowhere/x", true);
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, ErrorCode::io);
}

}  // namespace
}  // namespace mfu
