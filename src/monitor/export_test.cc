#include "mfu/monitor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

namespace mfu {
namespace {

namespace fs = std::filesystem;

class ExportTest : public testing::Test {
 protected:
  ExportTest() : folder_(testing::TempDir() + "export." + std::to_string(::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ExportTest() override { fs::remove_all(folder_); }

  static std::vector<StepReport> steps(std::optional<std::uint32_t> rank, std::uint64_t from,
                                       std::uint64_t count) {
    auto basis = std::make_shared<UtilizationBasis>(
        UtilizationBasis{.peak = FlopRate{1e12}, .peak_source = "given", .rank = rank});
    std::vector<StepReport> made;
    for (std::uint64_t i = 0; i < count; ++i) {
      StepInput input{.step = from + i, .time = std::chrono::seconds(1'700'000'000 + from + i)};
      input.duration = std::chrono::milliseconds(100);
      input.flop = MeasuredFlop{.flop = 10'000'000'000u, .source = Source::counted};
      made.push_back(report_step(input, basis));
    }
    return made;
  }
  std::string at(const char* name) const { return folder_ + "/" + name; }
  std::size_t files_in(const std::string& folder) const {
    return fs::exists(folder) ? static_cast<std::size_t>(std::distance(
                                    fs::directory_iterator(folder), fs::directory_iterator{}))
                              : 0;
  }
  std::string folder_;
};

TEST_F(ExportTest, writes_whole_files_and_says_which) {
  RecordedSteps recorded{.reports = steps({}, 0, 5000), .dropped = 2, .notes = {}};
  Result<ExportReport> done = export_steps(recorded, {.jsonl = at("log.json"),
                                                      .csv = at("deep/er/steps.csv"),
                                                      .tensorboard = at("board"),
                                                      .prometheus = at("mfu.prom")});
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_EQ(split(*read_file(at("log.json")), '\n').size(), 5001u);
  EXPECT_EQ(*read_file(at("deep/er/steps.csv")), steps_csv(recorded.reports));
  EXPECT_EQ(files_in(at("board")), 1u);
  EXPECT_NE(read_file(at("mfu.prom"))->find("mfu_step 4999\n"), std::string::npos);
  EXPECT_EQ(files_in(folder_), 4u);  // no .part file is left
  Result<Json> json = parse_json(to_json(*done), "export");
  EXPECT_EQ(json->find("files")->elements().size(), 4u);
  EXPECT_EQ(json->count_at("steps"), 5000u);
  EXPECT_EQ(json->count_at("dropped"), 2u);
  EXPECT_EQ(json->find("notes")->elements().size(), 1u);
}

TEST_F(ExportTest, replaces_only_where_it_is_told) {
  RecordedSteps recorded;
  recorded.reports = steps({}, 0, 3);
  ASSERT_TRUE(export_steps(recorded, {.jsonl = at("log"), .tensorboard = at("board")}).has_value());
  ASSERT_TRUE(write_file(at("board/events.out.tfevents.1.host.2.3"), "another's").has_value());
  recorded.reports = steps({}, 0, 7);
  Result<ExportReport> refused = export_steps(recorded, {.jsonl = at("new"), .csv = at("log")});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(fs::exists(at("new")));  // nothing was begun
  EXPECT_FALSE(export_steps(recorded, {.tensorboard = at("board")}).has_value());
  EXPECT_FALSE(export_steps(recorded, {.jsonl = at("a"), .csv = at("./a")}).has_value());
  EXPECT_FALSE(export_steps(recorded, {.jsonl = folder_, .replace = true}).has_value());
  Result<ExportReport> done =
      export_steps(recorded, {.jsonl = at("log"), .tensorboard = at("board"), .replace = true});
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_EQ(split(*read_file(at("log")), '\n').size(), 8u);
  EXPECT_EQ(files_in(at("board")), 2u);  // our file is new, the other tool's file stays
  EXPECT_EQ(*read_file(at("board/events.out.tfevents.1.host.2.3")), "another's");
  EXPECT_EQ(done->notes.size(), 1u);
}

TEST_F(ExportTest, gives_each_rank_a_folder_and_a_sample) {
  RecordedSteps recorded;
  recorded.reports = steps(0, 0, 4);
  for (StepReport& each : steps(1, 0, 6)) recorded.reports.push_back(each);
  for (StepReport& each : steps(0, 4, 2)) recorded.reports.push_back(each);  // started again
  Result<ExportReport> done =
      export_steps(recorded, {.tensorboard = at("board"), .prometheus = at("mfu.prom")});
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_EQ(done->ranks, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(files_in(at("board/rank0")), 1u);
  EXPECT_EQ(done->files[0].steps, 6u);
  std::string metrics = *read_file(at("mfu.prom"));
  EXPECT_NE(metrics.find("mfu_step{rank=\"0\"} 5\nmfu_step{rank=\"1\"} 5\n"), std::string::npos)
      << metrics;
  EXPECT_EQ(metrics.find("# TYPE mfu_step gauge"), metrics.rfind("# TYPE mfu_step gauge"));
}

TEST_F(ExportTest, a_failure_leaves_what_was_there) {
  ASSERT_TRUE(write_file(at("log"), "old\n").has_value());
  RecordedSteps recorded;
  recorded.reports = steps({}, 0, 3);
  fs::create_directories(at("log.part/in-the-way"));
  Result<ExportReport> failed = export_steps(recorded, {.jsonl = at("log"), .replace = true});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(*read_file(at("log")), "old\n");
  ASSERT_TRUE(export_steps({}, {.jsonl = at("empty"), .prometheus = at("none")}).has_value());
  EXPECT_EQ(*read_file(at("empty")), "");
}

}  // namespace
}  // namespace mfu
