// Tests on the 31 real traces that lie beside the repository. Without those traces they are
// skipped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "attribution/attribute.h"
#include "base/csv.h"
#include "base/text.h"

namespace mfu {
namespace {

using enum LedgerLine;

const std::string kFolder = MFU_SHARED_DIR "/traces/";

bool present() {
  return std::filesystem::exists(kFolder + "expected/reference_exact_intervals.csv");
}

CsvTable table(const std::string& name) {
  std::ifstream file(kFolder + "expected/" + name);
  std::stringstream text;
  text << file.rdbuf();
  Result<CsvTable> read = parse_csv(text.str(), name);
  return read.has_value() ? *read : CsvTable{};
}

RankAttribution explained(const std::string& path, std::string_view window = "") {
  Result<Trace> trace = read_trace(kFolder + path);
  EXPECT_TRUE(trace.has_value()) << path << ": " << trace.error().message;
  AttributionOptions options;
  if (!window.empty()) options.window = *parse_window(window);
  Result<Attribution> found = attribute({&*trace, 1}, options);
  EXPECT_TRUE(found.has_value()) << path << ": " << found.error().message;
  EXPECT_EQ(found->ranks.size(), 1u) << path;
  return found->ranks.at(0);
}

std::int64_t ns_of(const std::string& microseconds) {
  return std::llround(std::stod(microseconds) * 1000);
}

double share(const RankAttribution& rank, LedgerLine line) {
  return static_cast<double>(rank.ledger[line]) / static_cast<double>(rank.window.duration_ns());
}

TEST(RealTraces, intervals_equal_the_reference_to_the_nanosecond_and_ledgers_add_up) {
  if (!present()) GTEST_SKIP() << "no traces beside the repository";
  std::size_t compared = 0;
  for (const CsvRow& row : table("reference_exact_intervals.csv").rows) {
    const std::string& path = row.cells[0];
    for (const char* window : {"all", ""}) {
      RankAttribution rank = explained(path, window);
      EXPECT_EQ(rank.ledger.total_ns(), rank.window.duration_ns()) << path;
      EXPECT_EQ(rank.intervals.busy_ns + rank.intervals.idle_ns, rank.window.duration_ns()) << path;
      if (std::string_view(window) != "all" || row.cells[1].empty()) continue;
      ++compared;
      const Intervals& sums = rank.intervals;
      EXPECT_EQ(rank.window.duration_ns(), ns_of(row.cells[3])) << path;
      EXPECT_EQ(sums.busy_ns, ns_of(row.cells[4])) << path;
      EXPECT_EQ(sums.idle_ns, ns_of(row.cells[5])) << path;
      EXPECT_EQ(sums.compute_ns, ns_of(row.cells[6])) << path;
      EXPECT_EQ(sums.communication_ns, ns_of(row.cells[7])) << path;
      EXPECT_EQ(sums.exposed_communication_ns, ns_of(row.cells[8])) << path;
      EXPECT_EQ(sums.copy_ns, ns_of(row.cells[9])) << path;
      EXPECT_EQ(sums.exposed_copy_ns, ns_of(row.cells[10])) << path;
      EXPECT_EQ(rank.coverage.gpu_events, parse_count(row.cells[1])) << path;
    }
  }
  EXPECT_EQ(compared, 30u);
}

TEST(RealTraces, data_loading_is_named_where_it_is_and_not_where_it_is_not) {
  if (!present()) GTEST_SKIP() << "no traces beside the repository";
  for (const char* window : {"all", "steps"}) {
    RankAttribution slow = explained("kineto_v100_resnet50_workers0_a.json.gz", window);
    EXPECT_GE(share(slow, idle_data), 0.27) << window;
    EXPECT_LE(share(slow, idle_data), 0.31) << window;
    ASSERT_FALSE(slow.findings.empty());
    EXPECT_EQ(slow.findings.front().cause, Cause::data_loading) << window;
    RankAttribution fast = explained("kineto_v100_resnet50_workers4_a.json.gz", window);
    EXPECT_LT(share(fast, idle_data), 0.01) << window;
    for (const Finding& finding : fast.findings) {
      EXPECT_NE(finding.cause, Cause::data_loading) << window;
    }
  }
}

// Traces of 2021 have no concrete inputs, so they have no stride. A forward convolution cannot be
// counted without one; its backward can, by the shape of the gradient.
TEST(RealTraces, convolutions_whose_stride_was_not_recorded_are_said_to_be_missing_from_mfu) {
  if (!present()) GTEST_SKIP() << "no traces beside the repository";
  RankAttribution rank = explained("kineto_v100_resnet50_workers0_a.json.gz");
  ASSERT_FALSE(rank.coverage.uncounted.empty());
  const UncountedLine& most = rank.coverage.uncounted.front();
  EXPECT_EQ(most.name, "aten::convolution");
  EXPECT_EQ(most.calls, 318u);  // 53 in each step, six steps
  EXPECT_EQ(most.duration_ns, rank.ledger[matmul_flop_unknown]);
  auto note = std::find_if(rank.notes.begin(), rank.notes.end(),
                           [](const Note& each) { return each.code == "lower_bound_by"; });
  ASSERT_NE(note, rank.notes.end());
  EXPECT_EQ(note->values[1].second, NoteValue(std::int64_t{318}));
  EXPECT_EQ(note->values[2].second, NoteValue("aten::convolution"));
  for (const OperatorLine& line : rank.operators) {
    EXPECT_EQ(line.flop.has_value(), line.name != "aten::convolution") << line.name;
  }
}

TEST(RealTraces, launch_bound_ones_say_so_first) {
  if (!present()) GTEST_SKIP() << "no traces beside the repository";
  for (const char* path : {"tl_b200_eager_ws8_rank0.json.gz", "tl_h100_bert-small.json.gz",
                           "tl_mi300x_bert-small.json.gz"}) {
    RankAttribution rank = explained(path);
    ASSERT_FALSE(rank.findings.empty()) << path;
    EXPECT_EQ(rank.findings.front().cause, Cause::kernel_launch) << path;
    EXPECT_GT(share(rank, idle_launch), 0.5) << path;
  }
}

TEST(RealTraces, checkpointing_under_eight_ranks_is_bound_by_communication_and_recomputes) {
  if (!present()) GTEST_SKIP() << "no traces beside the repository";
  RankAttribution rank = explained("tl_mi300x_resnet_ckpt_ws8_rank0.json.gz");
  ASSERT_FALSE(rank.findings.empty());
  EXPECT_EQ(rank.findings.front().cause, Cause::communication);
  EXPECT_GT(rank.ledger[recomputation], 0);
  EXPECT_LT(*rank.model_flop, *rank.hardware_flop);
}

TEST(RealTraces, eight_ranks_part_waiting_from_transfer) {
  if (!present()) GTEST_SKIP() << "no traces beside the repository";
  Result<std::vector<Trace>> traces = read_trace_files({kFolder + "param_v100_dlrm_8rank"});
  ASSERT_TRUE(traces.has_value()) << traces.error().message;
  ASSERT_EQ(traces->size(), 8u);
  Result<Attribution> found = attribute(*traces, {});
  ASSERT_TRUE(found.has_value());
  EXPECT_GT(found->ledger[exposed_communication_wait], 0);
  EXPECT_GT(found->ledger[exposed_communication_transfer], 0);
  EXPECT_TRUE(found->slowest.has_value());
  for (const RankAttribution& rank : found->ranks) {
    EXPECT_EQ(rank.ledger.total_ns(), rank.window.duration_ns());
    EXPECT_EQ(rank.ledger[exposed_communication_wait] + rank.ledger[exposed_communication_transfer],
              rank.intervals.exposed_communication_ns);
  }
}

// Parses our text of shapes: "[64,4096] [4096,2798]".
std::vector<std::vector<std::int64_t>> parsed(const std::string& shapes) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::string_view one : split(shapes, ' ')) {
    if (one.size() < 2) continue;
    std::vector<std::int64_t>& sizes = all.emplace_back();
    for (std::string_view size : split(one.substr(1, one.size() - 2), ',')) {
      sizes.push_back(static_cast<std::int64_t>(parse_count(size).value_or(0)));
    }
  }
  return all;
}

struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  auto operator<=>(const Gemm&) const = default;
};

std::optional<Gemm> gemm_of(const OperatorLine& line) {
  std::vector<std::vector<std::int64_t>> shapes = parsed(line.shapes);
  if (line.name == "aten::addmm" && shapes.size() >= 3) shapes.erase(shapes.begin());
  if (shapes.size() < 2 || shapes[0].size() != shapes[1].size()) return std::nullopt;
  const auto& a = shapes[0];
  const auto& b = shapes[1];
  if (line.name == "vllm::rocm_unquantized_gemm") return Gemm{a[0], b[0], a[1], 1};
  if (a.size() == 2) return Gemm{a[0], b[1], a[1], 1};
  if (a.size() == 3) return Gemm{a[1], b[2], a[2], a[0]};
  return std::nullopt;
}

TEST(RealTraces, operators_equal_what_tracelens_finds_where_conventions_agree) {
  if (!present()) GTEST_SKIP() << "no traces beside the repository";
  std::map<std::string, RankAttribution> ranks;
  std::size_t compared = 0;
  for (const CsvRow& row : table("tracelens_gemm_tflops.csv").rows) {
    const std::string& name = row.cells[0];
    std::string path = name == "param_v100_dlrm_8rank_rank0"
                           ? "param_v100_dlrm_8rank/rank-0.json.gz"
                           : name + ".json.gz";
    if (!ranks.contains(name)) ranks.emplace(name, explained(path, "all"));
    Gemm wanted{std::stoll(row.cells[2]), std::stoll(row.cells[3]), std::stoll(row.cells[4]),
                std::stoll(row.cells[5])};
    std::uint64_t calls = 0;
    std::int64_t duration_ns = 0;
    double flop = 0;
    for (const OperatorLine& line : ranks.at(name).operators) {
      // TraceLens names the aten::mm; we name vLLM's own operator around it.
      bool same = line.name == row.cells[1] || line.name == "vllm::rocm_unquantized_gemm";
      if (!same || gemm_of(line) != wanted) continue;
      calls += line.calls;
      duration_ns += line.duration_ns;
      flop += line.flop->to_double();
    }
    std::string what = fmt::format("{} {} {}x{}x{} of {}", name, row.cells[1], wanted.m, wanted.n,
                                   wanted.k, wanted.batch);
    EXPECT_EQ(calls, parse_count(row.cells[7])) << what;
    if (calls == 0) continue;
    ++compared;
    // TraceLens also counts the bias of addmm: M·N more.
    double expected = 2.0 * static_cast<double>(wanted.m * wanted.n) *
                      static_cast<double>(wanted.k * wanted.batch);
    EXPECT_EQ(flop / static_cast<double>(calls), expected) << what;
    double mean_us = static_cast<double>(duration_ns) / static_cast<double>(calls) / 1000;
    // TraceLens counts the memset of a matmul's workspace as kernel time, about 1 µs. For us it is
    // a copy.
    double more_us = std::stod(row.cells[9]) - mean_us;
    EXPECT_GE(more_us, -0.002 * mean_us - 0.01) << what;
    EXPECT_LE(more_us, 2.5) << what;
  }
  EXPECT_GE(compared, 60u);
}

TEST(RealTraces, idle_for_no_reason_is_a_small_part_of_idle_or_explained) {
  if (!present()) GTEST_SKIP() << "no traces beside the repository";
  // docs/ledger.md explains these traces and their gaps.
  const std::map<std::string, double> kExplained = {
      {"hta_a100_ws16_rank0.json.gz", 0.86},
      {"hta_cpu_only.json.gz", 1.0},
      {"tl_mi300x_resnet_ckpt_ws8_rank0.json.gz", 0.2}};
  for (const CsvRow& row : table("reference_exact_intervals.csv").rows) {
    RankAttribution rank = explained(row.cells[0], "all");
    std::int64_t idle = rank.ledger.idle_ns();
    if (idle == 0) continue;
    double unknown = static_cast<double>(rank.ledger[idle_unknown]) / static_cast<double>(idle);
    auto known = kExplained.find(row.cells[0]);
    EXPECT_LE(unknown, known == kExplained.end() ? 0.1 : known->second) << row.cells[0];
  }
}

}  // namespace
}  // namespace mfu
