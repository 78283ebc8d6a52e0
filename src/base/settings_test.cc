#include "base/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"

namespace mfu {
namespace {

const std::vector<SettingKey> kKeys = {{"color", "MFU_TEST_COLOR", "auto", "when to colour"},
                                       {"catalog", "MFU_TEST_CATALOG", "", "a file"}};

std::string file_with(const std::string& text) {
  std::string path = testing::TempDir() + "settings_test.yaml";
  EXPECT_TRUE(write_file(path, text).has_value());
  return path;
}

TEST(Settings, flag_wins_over_environment_over_file_over_default) {
  std::string path = file_with("# mine\ncolor: always\n");
  EXPECT_EQ(Settings::resolve(kKeys, {}, "/does/not/exist")->value("color"), "auto");
  EXPECT_EQ(Settings::resolve(kKeys, {}, path)->setting("color").origin, "file " + path + ":2");
  ::setenv("MFU_TEST_COLOR", "never", 1);
  EXPECT_EQ(Settings::resolve(kKeys, {}, path)->setting("color").origin,
            "environment MFU_TEST_COLOR");
  EXPECT_EQ(Settings::resolve(kKeys, {{"color", "auto"}}, path)->setting("color").origin, "flag");
  ::unsetenv("MFU_TEST_COLOR");
}

TEST(Settings, a_broken_file_names_line_column_and_the_likely_key) {
  auto message = [](const std::string& text) {
    return Settings::resolve(kKeys, {}, file_with(text)).error().message;
  };
  EXPECT_NE(
      message("colour: never\n").find(":1:1: there is no setting 'colour'; did you mean 'color'?"),
      std::string::npos);
  EXPECT_NE(message("color: [a]\n").find(":1:8: 'color' takes one value"), std::string::npos);
  EXPECT_NE(message("- a\n").find("`key: value` lines were expected"), std::string::npos);
  EXPECT_NE(message("color: {\n").find("not YAML"), std::string::npos);
}

}  // namespace
}  // namespace mfu
