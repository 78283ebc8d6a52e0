#include "sinks/page.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

constexpr std::string_view kSkeleton =
    "<meta content=\"@POLICY@\"><title>@TITLE@</title><style>@STYLE@</style>"
    "<script type=\"application/json\">@DATA@</script><script>@SCRIPT@</script>";

TEST(Page, lets_nothing_but_its_own_script_and_style_run) {
  std::string page = assemble_page({kSkeleton, "body{}", "start();", "t", "{}"});
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  // printf 'start();' | openssl dgst -sha256 -binary | base64
  EXPECT_NE(page.find("script-src 'sha256-E6jQvrT2ZivWG9GJ4AAEZf4MhI7l3QkLroW4hgvUT4c='"),
            std::string::npos)
      << page;
  EXPECT_EQ(page.find("unsafe"), std::string::npos);
}

TEST(Page, keeps_hostile_text_from_becoming_markup) {
  std::string page = assemble_page({kSkeleton, "", "", "</title><script>alert(1)</script>",
                                    "{\"name\":\"</script><img src=x onerror=alert(1)>\"}"});
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script\\u003e"), std::string::npos);
}

TEST(Page, shows_no_control_characters_in_its_title) {
  std::string page = assemble_page({kSkeleton, "", "",
                                    "a\x1b[31m\xc2\x9b\xe2\x80\xae"
                                    "b.json",
                                    "{}"});
  EXPECT_NE(page.find("<title>a?[31m??b.json</title>"), std::string::npos) << page;
}

TEST(Page, does_not_search_what_it_put_in) {
  std::string page = assemble_page({kSkeleton, "", "run();", "@SCRIPT@", "\"@SCRIPT@\""});
  EXPECT_NE(page.find("<title>@SCRIPT@</title>"), std::string::npos);
  EXPECT_NE(page.find("<script>run();</script>"), std::string::npos);
}

}  // namespace
}  // namespace mfu
