#include "sinks/words.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>

#include "sinks/sentences.h"

namespace mfu {
namespace {

TEST(Words, fill_values_in_with_their_units) {
  Finding finding{.code = "data_loading",
                  .cause = Cause::data_loading,
                  .values = {{"of", "window"},
                             {"fraction", 0.285},
                             {"duration_ns", std::int64_t{284'000'000}},
                             {"on", "accelerator"}},
                  .fixes = {"pin_memory", "autotune"}};
  finding.evidence.push_back(
      {"mostly", {{"kernels", std::vector<NotedItem>{{"copy", 1500, 2}, {"set", 10, 0}}}}});
  FindingWords words = finding_words(finding);
  EXPECT_EQ(words.title, "The device waits for data: 28.5% of the window (284 ms)");
  EXPECT_EQ(words.evidence[0], "Mostly copy 1.5 µs (2×), set 10 ns");
  EXPECT_TRUE(words.fix.ends_with("; torch.compile(mode=\"max-autotune\")."));
  finding.values[0].second = "step_time";
  EXPECT_EQ(finding_words(finding).title, "The loop waits for its next batch: 28.5% of step time");
}

TEST(Words, name_options_as_the_reader_types_them) {
  Note note{"no_peak_for_type", {{"dtype", "fp4"}, {"device", "X"}}};
  EXPECT_EQ(words_of(note), "no peak for fp4 on X: give --peak FLOP_PER_S");
  EXPECT_EQ(words_of(note, Voice::python), "no peak for fp4 on X: give peak=");
  EXPECT_EQ(words_of(std::string("as it stands, {braces} too")), "as it stands, {braces} too");
}

TEST(Words, durations_have_one_form) {
  EXPECT_EQ(duration_text(12), "12 ns");
  EXPECT_EQ(duration_text(1.5e6), "1.5 ms");
  EXPECT_EQ(duration_text(2.5e9), "2.5 s");
  EXPECT_EQ(duration_text(150e9), "2.5 min");
  EXPECT_EQ(duration_text(9000e9), "2.5 h");
}

// Codes as they stand in the sources of attribution/, report/ and utilization/.
TEST(Words, every_code_has_its_sentence) {
  const std::regex note(R"re(\{"([a-z0-9_]+)",\s*\{)re"),
      fix(R"re(emplace_back\("([a-z0-9_]+)"\))re");
  std::set<std::string> codes;
  for (const char* file :
       {"attribution/attribute.cc", "attribution/findings.cc", "attribution/rules_host.cc",
        "attribution/rules_device.cc", "attribution/rules_matmul.cc", "report/run_report.cc",
        "utilization/utilization.cc"}) {
    std::ifstream source(std::string(MFU_SOURCE_DIR "/src/") + file);
    std::string text((std::istreambuf_iterator<char>(source)), {});
    ASSERT_FALSE(text.empty()) << file;
    for (const std::regex& pattern : {note, fix}) {
      for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
        codes.insert((*at)[1]);
      }
    }
  }
  EXPECT_GT(codes.size(), 40u);
  for (const std::string& code : codes) {
    bool known = false;
    for (const char* kind : {"note", "evidence", "fix", "title"}) {
      known = known || !sentence_of(kind, code).empty();
    }
    EXPECT_TRUE(known) << code;
  }
}

}  // namespace
}  // namespace mfu
