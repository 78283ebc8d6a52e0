// Tests on the 31 real traces: what they contain, and that the unions of their intervals equal
// those of an independent reference, to the nanosecond.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/csv.h"
#include "base/file.h"
#include "base/text.h"
#include "trace/collective.h"
#include "trace/trace.h"

namespace mfu {
namespace {

const std::string kTraces = MFU_SHARED_DIR "/traces/";

using Intervals = std::vector<std::pair<std::int64_t, std::int64_t>>;

Intervals merged(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  Intervals out;
  for (const auto& [start, end] : intervals) {
    if (!out.empty() && start <= out.back().second) {
      out.back().second = std::max(out.back().second, end);
    } else {
      out.emplace_back(start, end);
    }
  }
  return out;
}

std::int64_t length(const Intervals& intervals) {
  std::int64_t sum = 0;
  for (const auto& [start, end] : merged(intervals)) sum += end - start;
  return sum;
}

Intervals joined(Intervals a, const Intervals& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Each row of the reference, as texts by column.
std::vector<std::map<std::string, std::string>> reference() {
  std::vector<std::map<std::string, std::string>> rows;
  auto text = read_file(kTraces + "expected/reference_exact_intervals.csv");
  if (!text.has_value()) return rows;
  std::vector<std::string> names;
  for (std::string_view line : split(*text, '\n')) {
    std::vector<std::string_view> cells = split(trim(line), ',');
    if (cells.size() < 12) continue;
    if (names.empty()) {
      names.assign(cells.begin(), cells.end());
      continue;
    }
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = std::string(cells[i]);
    rows.push_back(row);
  }
  return rows;
}

std::int64_t ns(const std::string& microseconds) {
  return std::llround(std::stod(microseconds) * 1000);
}

TEST(RealTraces, intervals_equal_the_reference_to_the_nanosecond) {
  auto rows = reference();
  if (rows.empty()) GTEST_SKIP() << "the real traces are not here";
  EXPECT_EQ(rows.size(), 31u);
  for (auto& row : rows) {
    SCOPED_TRACE(row["trace"]);
    auto trace = read_trace(kTraces + row["trace"]);
    ASSERT_TRUE(trace.has_value()) << trace.error().message;
    EXPECT_FALSE(trace->coverage.truncated);
    EXPECT_EQ(trace->coverage.skipped_events, 0u);
    const DeviceEvents& device = trace->device;
    if (row["gpu_events"].empty()) {
      EXPECT_EQ(device.size(), 0u);
      continue;
    }
    EXPECT_EQ(std::to_string(device.size()), row["gpu_events"]);
    EXPECT_EQ(std::to_string(trace->coverage.linked), row["linked"]);
    Intervals compute, communication, copies;
    for (std::size_t i = 0; i < device.size(); ++i) {
      Intervals& kind = device.kind[i] == DeviceKind::compute         ? compute
                        : device.kind[i] == DeviceKind::communication ? communication
                                                                      : copies;
      kind.emplace_back(device.start_ns[i], device.start_ns[i] + device.duration_ns[i]);
    }
    Intervals work = joined(compute, communication), busy = merged(joined(work, copies));
    std::int64_t span = busy.back().second - busy.front().first;
    EXPECT_EQ(span, ns(row["span_us"]));
    EXPECT_EQ(length(busy), ns(row["busy_us"]));
    EXPECT_EQ(span - length(busy), ns(row["idle_us"]));
    EXPECT_EQ(length(compute), ns(row["compute_us"]));
    EXPECT_EQ(length(communication), ns(row["comm_us"]));
    EXPECT_EQ(length(work) - length(compute), ns(row["exposed_comm_us"]));
    EXPECT_EQ(length(copies), ns(row["memcpy_us"]));
    EXPECT_EQ(length(busy) - length(work), ns(row["exposed_memcpy_us"]));
  }
}

Trace real(const std::string& name) {
  auto trace = read_trace(kTraces + name);
  EXPECT_TRUE(trace.has_value()) << trace.error().message;
  return std::move(trace).value();
}

bool absent() {
  return !std::filesystem::exists(kTraces + "README.md");
}

TEST(RealTraces, rows_are_sorted_nested_and_linked) {
  if (absent()) GTEST_SKIP();
  for (const char* name :
       {"hta_a100_ws8_rank3_control.json.gz", "tl_mi300x_resnet_ckpt_ws8_rank0.json.gz",
        "tl_h100_qwen1.5-0.5b.json.gz", "kineto_v100_resnet50_workers0_a.json.gz"}) {
    SCOPED_TRACE(name);
    Trace trace = real(name);
    const HostEvents& host = trace.host;
    for (std::uint32_t i = 0; i < host.size(); ++i) {
      if (i > 0 && host.thread[i] == host.thread[i - 1]) {
        ASSERT_LE(host.start_ns[i - 1], host.start_ns[i]);
      }
      if (host.parent[i] == kNone) continue;
      std::uint32_t parent = host.parent[i];
      ASSERT_LT(parent, i);
      ASSERT_EQ(host.thread[parent], host.thread[i]);
      ASSERT_LE(host.start_ns[parent], host.start_ns[i]);
      ASSERT_LE(host.start_ns[i] + host.duration_ns[i],
                host.start_ns[parent] + host.duration_ns[parent] + 1000);
    }
    for (std::uint32_t i = 0; i < trace.launches.size(); ++i) {
      std::uint32_t in = trace.launches.host[i];
      if (in == kNone) continue;
      ASSERT_LE(host.start_ns[in], trace.launches.start_ns[i]);
      ASSERT_GT(host.start_ns[in] + host.duration_ns[in], trace.launches.start_ns[i]);
    }
    for (std::size_t i = 1; i < trace.device.size(); ++i) {
      ASSERT_LE(trace.device.start_ns[i - 1], trace.device.start_ns[i]);
    }
  }
}

TEST(RealTraces, checkpointing_is_recognised) {
  if (absent()) GTEST_SKIP();
  Trace trace = real("tl_mi300x_resnet_ckpt_ws8_rank0.json.gz");
  std::map<std::string, int> again, all;
  for (std::uint32_t i = 0; i < trace.host.size(); ++i) {
    std::string name(trace.text(trace.host.name[i]));
    all[name] += 1;
    again[name] += trace.host.recomputed[i];
    if (name.starts_with("autograd::engine")) {
      EXPECT_EQ(trace.host.recomputed[i], 0);
    }
  }
  // Four checkpointed stages, three steps. Every convolution inside a stage runs twice, the others
  // once.
  EXPECT_GT(again["aten::conv2d"], 0);
  EXPECT_LT(again["aten::conv2d"], all["aten::conv2d"]);
  EXPECT_EQ(again["aten::convolution_backward"], 0);
  std::size_t kernels = 0;
  for (std::size_t i = 0; i < trace.device.size(); ++i) {
    std::uint32_t host = trace.device.host[i];
    kernels += host != kNone && trace.host.recomputed[host] != 0;
  }
  EXPECT_GT(kernels, 100u);
  for (const char* name : {"hta_a100_ws8_rank3_control.json.gz", "hta_v100_ns_rank0.json.gz",
                           "param_2080ti_linear.json.gz"}) {
    Trace plain = real(name);
    EXPECT_EQ(std::count(plain.host.recomputed.begin(), plain.host.recomputed.end(), 1), 0) << name;
  }
}

TEST(RealTraces, backward_operators_know_their_forward) {
  if (absent()) GTEST_SKIP();
  Trace trace = real("hta_v100_ns_rank0.json.gz");
  std::size_t linked = 0, nodes = 0;
  for (std::uint32_t i = 0; i < trace.host.size(); ++i) {
    std::string_view name = trace.text(trace.host.name[i]);
    if (name != "ConvolutionBackward0") continue;
    ++nodes;
    if (trace.host.forward[i] == kNone) continue;
    ++linked;
    std::string_view forward = trace.text(trace.host.name[trace.host.forward[i]]);
    EXPECT_TRUE(forward.find("conv") != std::string_view::npos) << forward;
    EXPECT_LT(trace.host.start_ns[trace.host.forward[i]], trace.host.start_ns[i]);
  }
  EXPECT_GT(nodes, 0u);
  EXPECT_GT(linked * 10, nodes * 8);
}

TEST(RealTraces, eight_ranks_are_matched_and_their_waits_found) {
  if (absent()) GTEST_SKIP();
  auto traces = read_trace_files({kTraces + "param_v100_dlrm_8rank"});
  ASSERT_TRUE(traces.has_value()) << traces.error().message;
  ASSERT_EQ(traces->size(), 8u);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ((*traces)[i].info.rank, static_cast<std::int64_t>(i));
  CollectiveMatch match = match_collectives(*traces);
  EXPECT_TRUE(match.notes.empty()) << match.notes.front().code;
  EXPECT_EQ(match.collectives.size(), 8u);
  std::int64_t wait = 0, transfer = 0;
  for (const MatchedCollective& collective : match.collectives) {
    EXPECT_EQ(collective.parts.size(), 8u);
    for (const CollectivePart& part : collective.parts) {
      EXPECT_EQ(part.wait_ns + part.transfer_ns,
                (*traces)[part.trace].device.duration_ns[part.device_event]);
      EXPECT_GE(part.wait_ns, 0);
      EXPECT_GE(part.transfer_ns, 0);
      if (part.trace == collective.straggler) {
        EXPECT_EQ(part.wait_ns, 0);
      }
      wait += part.wait_ns;
      transfer += part.transfer_ns;
    }
  }
  // These kernels spend most of their time waiting, because their data are small.
  EXPECT_GT(wait, 4 * transfer);
  for (const RankClock& clock : match.clocks) EXPECT_LT(std::abs(clock.offset_ns), 1000000);
}

}  // namespace
}  // namespace mfu
