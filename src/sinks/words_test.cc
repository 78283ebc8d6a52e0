#include "sinks/words.h"

#include <gtest/gtest.h>

#include <filesystem>
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
  EXPECT_EQ(words_of(Note::said("as it stands, {braces} too")), "as it stands, {braces} too");
}

TEST(Words, durations_have_one_form) {
  EXPECT_EQ(duration_text(12), "12 ns");
  EXPECT_EQ(duration_text(1.5e6), "1.5 ms");
  EXPECT_EQ(duration_text(2.5e9), "2.5 s");
  EXPECT_EQ(duration_text(150e9), "2.5 min");
  EXPECT_EQ(duration_text(9000e9), "2.5 h");
}

TEST(Words, python_reads_its_own_options_in_errors_too) {
  auto spoken = [](const char* text) { return in_voice(text, Voice::python); };
  EXPECT_EQ(spoken("no peak: give --device NAME, or --peak FLOP_PER_S"),
            "no peak: give device=, or peak=");
  EXPECT_EQ(spoken("bert has no encoder: leave --encoder-seq out"),
            "bert has no encoder: leave encoder_seq= out");
  EXPECT_EQ(spoken("'--image-grid' (--images N too)"), "'image_grid=' (images= too)");
  EXPECT_EQ(spoken("give --set vocab_size=32000"), "give set= vocab_size=32000");
  EXPECT_EQ(spoken("--peak"), "peak=");
  EXPECT_EQ(spoken("none. mfu peak --list shows all; --peak N"),
            "none. mfu.devices() shows all; peak=");
  // Commands, paths and rules stay as they are.
  for (const char* same :
       {"mfu peak --measure measures it", "run--1/x.json", "a -- b", "---", "--", ""}) {
    EXPECT_EQ(spoken(same), same);
  }
  EXPECT_EQ(in_voice("give --peak", Voice::command_line), "give --peak");
}

std::vector<std::pair<std::string, std::string>> sources(
    std::initializer_list<const char*> folders) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const char* folder : folders) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(MFU_SOURCE_DIR "/src/") + folder)) {
      std::string path = entry.path().string();
      if (!path.ends_with(".cc") || path.ends_with("_test.cc")) continue;
      std::ifstream source(path);
      found.emplace_back(path, std::string((std::istreambuf_iterator<char>(source)), {}));
    }
  }
  return found;
}

TEST(Words, every_code_has_its_sentence) {
  // Finds codes in the sources: of a note, of the two sides of a choice, of a fix, of a reason why
  // a convention does not fit, and of a note without values.
  const std::regex patterns[] = {
      std::regex(R"re(\{\s*"([a-z0-9_]+)",\s*\{)re"),
      std::regex(R"re(Note\("([a-z0-9_]+)",)re"),
      std::regex(R"re([({]\s*[^{}"; =]+[^{}";=]*\? "([a-z0-9]+_[a-z0-9_]+)")re"),
      std::regex(R"re(: "([a-z0-9_]+)",\s*\{)re"),
      std::regex(R"re((?:fixes|notes)\.emplace_back\("([a-z0-9_]+)"\))re"),
      std::regex(R"re(units_note\("([a-z0-9_]+)")re"),
      std::regex(R"re(return "([a-z0-9_]{5,})";)re"),
      std::regex(R"re(why = "([a-z0-9_]+)")re"),
  };
  std::set<std::string> codes;
  for (const auto& [path, text] :
       sources({"trace", "attribution", "report", "utilization", "hardware", "model", "measure"})) {
    // Other words of the same form that are not codes: names of families, fields and files.
    bool notes = text.find("notes.") != std::string::npos ||
                 text.find("Note") != std::string::npos || text.find("fixes") != std::string::npos;
    if (!notes && path.find("/convention.cc") == std::string::npos) continue;
    for (const std::regex& pattern : patterns) {
      for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
        codes.insert((*at)[1]);
      }
    }
  }
  EXPECT_GT(codes.size(), 100u);
  for (const std::string& code : codes) {
    bool known = false;
    for (const char* kind : {"note", "evidence", "fix", "title", "why", "of"}) {
      known = known || !sentence_of(kind, code).empty();
    }
    EXPECT_TRUE(known) << code;
  }
}

// The library states facts: a note is a code, unless it passes on what a reader or a process said.
TEST(Words, no_library_makes_a_sentence_of_a_note) {
  const std::regex sentence(
      R"re((?:notes|assumptions|differences|contradictions)[a-z_]*\.)re"
      R"re((?:push_back|emplace_back)\(\s*(?:fmt::|"[^"]* |std::string\())re");
  for (const auto& [path, text] :
       sources({"attribution", "report", "utilization", "hardware", "model", "measure"})) {
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, sentence)) << path << ": " << found[0];
  }
}

}  // namespace
}  // namespace mfu
