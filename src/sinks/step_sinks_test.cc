#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/crc32c.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "mfu/sink.h"

namespace mfu {
namespace {

StepReport report(std::uint64_t step) {
  auto basis = std::make_shared<UtilizationBasis>(UtilizationBasis{
      .precision = Precision::bf16, .peak = FlopRate{989.4e12}, .peak_source = "H100, \"SXM\""});
  StepInput input{.step = step, .time = std::chrono::seconds(1'700'000'000), .loss = 2.5};
  input.duration = std::chrono::milliseconds(250);
  input.tokens = 1000;
  input.flop = MeasuredFlop{.flop = 98'940'000'000'000u, .source = Source::calibrated};
  input.flop->calibration = Calibration{.linear = 1.01, .quadratic = 2, .readings = 3};
  input.flop->calibration_age = 17;
  input.generation = GenerationUse{.tokens_per_s = 150.5,
                                   .tokens = 1505,
                                   .elapsed = std::chrono::seconds(10),
                                   .flop_per_token = 14e9,
                                   .flop = FlopCount(14'000'000'000u) * 1505u};
  return report_step(input, basis);
}

class StepSinks : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "sinks." + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(std::unique_ptr<Sink> sink, std::uint64_t from, std::uint64_t count) {
    Result<void> opened = sink->open();
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    for (std::uint64_t i = 0; i < count; ++i) {
      StepReport one = report(from + i);
      Result<void> written = sink->write(std::span(&one, 1));
      ASSERT_TRUE(written.has_value()) << written.error().message;
    }
    ASSERT_TRUE(sink->close().has_value());
  }
  std::string folder_;
};

TEST_F(StepSinks, json_lines_have_the_documented_names_and_how_they_were_made) {
  std::string path = folder_ + "/training_log.json";
  write(make_jsonl_sink(path), 0, 2);
  write(make_jsonl_sink(path), 2, 1);  // a run that continues
  std::string text = *read_file(path);
  std::vector<std::string_view> lines = split(text, '\n');
  ASSERT_EQ(lines.size(), 4u);  // the last is empty
  Result<Json> line = parse_json(lines[2], "line");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->find("step")->count(), 2u);
  EXPECT_EQ(line->find("loss")->number(), 2.5);
  // 98.94e12 FLOP in 0.25 s of 989.4e12 a second: 0.4.
  EXPECT_NEAR(*line->find("perf/mfu")->number(), 0.4, 1e-12);
  for (std::string_view name : {"perf/step_time", "perf/tokens_per_second", "mfu/elapsed_time"}) {
    EXPECT_NE(line->find(name), nullptr) << name;
  }
  EXPECT_EQ(*line->find("source")->string(), "calibrated");
  EXPECT_EQ(*line->find("convention")->string(), "exact");
  EXPECT_EQ(line->find("model_flop")->raw_number(), "98940000000000");
  EXPECT_EQ(line->find("calibration")->find("age_steps")->count(), 17u);
  EXPECT_EQ(line->find("grad_norm"), nullptr);
}

TEST_F(StepSinks, csv_reads_back_with_one_header) {
  std::string path = folder_ + "/steps.csv";
  write(make_csv_sink(path), 0, 2);
  write(make_csv_sink(path), 2, 1);
  Result<CsvTable> table = parse_csv(*read_file(path), path);
  ASSERT_TRUE(table.has_value()) << table.error().message;
  ASSERT_EQ(table->rows.size(), 3u);
  auto cell = [&](std::size_t row, std::string_view name) {
    for (std::size_t i = 0; i < table->columns.size(); ++i) {
      if (table->columns[i] == name) return table->rows[row].cells[i];
    }
    return std::string("no such column");
  };
  EXPECT_EQ(cell(2, "step"), "2");
  EXPECT_EQ(cell(0, "peak_source"), "H100, \"SXM\"");
  EXPECT_EQ(cell(0, "grad_norm"), "");
  EXPECT_EQ(cell(0, "perf/step_time"), "0.25");
}

// Reads TFRecord framing and checks both sums of every record.
std::vector<std::string> tf_records(std::string_view bytes) {
  auto unmasked = [](std::uint32_t masked) {
    std::uint32_t turned = masked - 0xa282ead8u;
    return (turned >> 17) | (turned << 15);
  };
  std::vector<std::string> records;
  while (bytes.size() >= 16) {
    std::uint64_t length = 0;
    std::uint32_t sum = 0;
    std::memcpy(&length, bytes.data(), 8);
    std::memcpy(&sum, bytes.data() + 8, 4);
    EXPECT_EQ(unmasked(sum), crc32c(bytes.substr(0, 8)));
    if (bytes.size() < length + 16) break;
    std::memcpy(&sum, bytes.data() + 12 + length, 4);
    EXPECT_EQ(unmasked(sum), crc32c(bytes.substr(12, length)));
    records.emplace_back(bytes.substr(12, length));
    bytes.remove_prefix(length + 16);
  }
  EXPECT_TRUE(bytes.empty());
  return records;
}

TEST_F(StepSinks, tensor_board_files_are_framed_records) {
  write(make_tensorboard_sink(folder_), 0, 3);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) files.push_back(entry);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].filename().string().find("events.out.tfevents.1700000000."), 0u);
  std::vector<std::string> records = tf_records(*read_file(files[0]));
  ASSERT_EQ(records.size(), 4u);
  EXPECT_NE(records[0].find("brain.Event:2"), std::string::npos);
  EXPECT_NE(records[1].find("perf/mfu"), std::string::npos);
  EXPECT_NE(records[1].find("convention exact"), std::string::npos);  // said once
  EXPECT_EQ(records[2].find("convention exact"), std::string::npos);
}

TEST_F(StepSinks, prometheus_text_names_types_and_labels) {
  std::string path = folder_ + "/mfu.prom";
  write(make_prometheus_sink(path), 41, 2);
  std::string text = *read_file(path);
  EXPECT_NE(text.find("# TYPE mfu_perf_mfu gauge\nmfu_perf_mfu{convention=\"exact\",source="
                      "\"calibrated\",dtype=\"bf16\"} 0.4"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("mfu_step 42\n"), std::string::npos);
  EXPECT_NE(text.find("peak_source=\"H100, \\\"SXM\\\"\""), std::string::npos);
  EXPECT_NE(text.find("mfu_tokens_per_second 150.5"), std::string::npos);
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with("# HELP ")) continue;
    EXPECT_NE(line.find(' ', 7), std::string_view::npos) << line;
  }
}

TEST_F(StepSinks, bodies_for_the_web_are_json) {
  std::vector<StepReport> two = {report(1), report(2)};
  Result<Json> otlp = parse_json(otlp_body(two, "trainer"), "otlp");
  ASSERT_TRUE(otlp.has_value());
  const Json& resource = otlp->find("resourceMetrics")->elements()[0];
  const Json& metrics = *resource.find("scopeMetrics")->elements()[0].find("metrics");
  const Json* mfu = nullptr;
  for (const Json& metric : metrics.elements()) {
    if (*metric.find("name")->string() == "perf/mfu") mfu = &metric;
  }
  ASSERT_NE(mfu, nullptr);
  const Json& points = *mfu->find("gauge")->find("dataPoints");
  ASSERT_EQ(points.elements().size(), 2u);
  EXPECT_EQ(*points.elements()[0].find("timeUnixNano")->string(), "1700000000000000000");
  Result<Json> mlflow = parse_json(mlflow_body(two, "abc"), "mlflow");
  ASSERT_TRUE(mlflow.has_value());
  EXPECT_EQ(*mlflow->find("run_id")->string(), "abc");
  const Json& first = mlflow->find("metrics")->elements()[0];
  EXPECT_EQ(*first.find("key")->string(), "training/loss");
  EXPECT_EQ(first.find("timestamp")->count(), 1'700'000'000'000u);
}

TEST_F(StepSinks, a_line_for_people_says_where_the_number_comes_from) {
  EXPECT_EQ(console_line(report(7)),
            "step 7  loss 2.5  MFU 40.0% (calibrated)  4000 tokens/s  0.25 s  generated 150 "
            "tokens/s (MFU 0.21%)");
}

TEST_F(StepSinks, a_console_that_takes_no_more_gets_no_line_twice) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK), 0);
  std::FILE* stream = ::fdopen(ends[1], "w");
  auto console = make_console_sink(stream);
  std::vector<StepReport> reports;
  for (std::uint64_t step = 0; step < 4000; ++step) reports.push_back(report(step));
  EXPECT_TRUE(console->write(reports).has_value());  // more than a pipe holds
  std::string taken(1 << 20, 0);
  ssize_t count = ::read(ends[0], taken.data(), taken.size());
  ASSERT_GT(count, 0);
  EXPECT_LT(count, 1 << 18);
  EXPECT_TRUE(console->write(std::span(reports).first(1)).has_value());
  count = ::read(ends[0], taken.data(), taken.size());
  ASSERT_GT(count, 0);
  EXPECT_EQ(taken.substr(0, static_cast<std::size_t>(count)), console_line(reports[0]) + "\n");
  ::close(ends[0]);
  std::fclose(stream);
}

// Files as other tools leave them. No byte of them may be lost.
TEST_F(StepSinks, a_file_of_another_tool_is_set_aside_whole) {
  std::string long_one = "{\"a\": \"" + std::string(27'890, 'x') + "\"}";
  std::vector<std::string> json = {
      long_one,
      "[\n  {\"step\": 1}\n]",
      "[\n  {\"step\": 1}\n]\n",
      "{\"step\": 1, \"loss\": 2}\n",
      "{\"step\":1,\"loss\":2}\n",
      "{",
      "{\"st",
      "{\"step\":1,\"time_unix_s\":1}\nsomething else",
      "\n",
      std::string("\0\1\2", 3),
      std::string(17 << 20, 'x'),
  };
  std::vector<std::string> tables = {"epoch,loss",         "epoch,loss\n1,2\n", "step,loss\n1,2",
                                     "step,time_unix_s\n", "1,2,3\n",           "s"};
  auto check = [&](const std::vector<std::string>& texts,
                   std::unique_ptr<Sink> (*make)(std::string), std::string_view begin) {
    int number = 0;
    for (const std::string& text : texts) {
      std::string path = folder_ + "/log." + std::to_string(number++);
      ASSERT_TRUE(write_file(path, text).has_value());
      ASSERT_TRUE(write_file(path + ".other", "mine too").has_value());
      std::unique_ptr<Sink> sink = make(path);
      ASSERT_TRUE(sink->open().has_value());
      StepReport one = report(7);
      ASSERT_TRUE(sink->write(std::span(&one, 1)).has_value());
      EXPECT_EQ(*read_file(path + ".other-2"), text);
      EXPECT_EQ(*read_file(path + ".other"), "mine too");
      EXPECT_TRUE(read_file(path)->starts_with(begin)) << text;
      std::vector<std::string> notes = sink->take_notes();
      ASSERT_EQ(notes.size(), 1u) << text;
      EXPECT_NE(notes[0].find(path + ".other-2"), std::string::npos);
      std::filesystem::remove_all(folder_);
    }
  };
  check(json, make_jsonl_sink, "{\"step\":7,");
  check(tables, make_csv_sink, "step,time_unix_s,epoch");
  check({"notes of mine\n", "# HELP other_metric\n"}, make_prometheus_sink, "# HELP mfu_");
}

TEST_F(StepSinks, a_half_line_of_ours_is_cut_and_the_file_is_continued) {
  std::string path = folder_ + "/log", line = to_json(report(1)) + '\n';
  for (std::size_t kept : {1u, 8u, 9u, 12u, 100u}) {
    ASSERT_TRUE(write_file(path, line + line.substr(0, kept)).has_value());
    write(make_jsonl_sink(path), 2, 1);
    EXPECT_EQ(*read_file(path), line + to_json(report(2)) + '\n') << kept;
  }
  std::vector<StepReport> one = {report(1)};
  std::string table = steps_csv(one);
  ASSERT_TRUE(write_file(path, table + "2,17000").has_value());
  write(make_csv_sink(path), 1, 1);
  std::string row = table.substr(table.find('\n') + 1);
  EXPECT_EQ(*read_file(path), table + row);
}

TEST_F(StepSinks, a_file_that_was_deleted_or_renamed_is_made_again) {
  std::string path = folder_ + "/log.csv";
  std::unique_ptr<Sink> sink = make_csv_sink(path), board = make_tensorboard_sink(folder_ + "/b");
  StepReport one = report(1);
  ASSERT_TRUE(sink->open().has_value() && board->open().has_value());
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(sink->write(std::span(&one, 1)).has_value());
    ASSERT_TRUE(board->write(std::span(&one, 1)).has_value());
    EXPECT_TRUE(read_file(path)->starts_with("step,time_unix_s")) << round;
    EXPECT_EQ(sink->take_notes().size(), round == 0 ? 0u : 1u);
    EXPECT_FALSE(std::filesystem::is_empty(folder_ + "/b"));
    round == 0 ? std::filesystem::rename(folder_, folder_ + ".1")
               : static_cast<void>(std::filesystem::remove_all(folder_));
  }
  std::filesystem::remove_all(folder_ + ".1");
}

TEST_F(StepSinks, fail_with_a_message_where_the_disk_is_full_or_not_ours) {
  StepReport one = report(1);
  for (auto make : {make_jsonl_sink, make_csv_sink}) {
    std::unique_ptr<Sink> full = make("/dev/full");
    ASSERT_TRUE(full->open().has_value());
    EXPECT_EQ(full->write(std::span(&one, 1)).error().code, ErrorCode::io);
    EXPECT_FALSE(make("/proc/nowhere/log")->open().has_value());
  }
  EXPECT_FALSE(make_tensorboard_sink("/proc/nowhere")->write(std::span(&one, 1)).has_value());
  EXPECT_FALSE(make_prometheus_sink("/proc/nowhere/x")->write(std::span(&one, 1)).has_value());
}

}  // namespace
}  // namespace mfu
