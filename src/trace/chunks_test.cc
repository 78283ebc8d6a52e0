// A file gives the same trace for any number of threads that read it, whether it is whole or
// damaged.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "trace/archive_for_tests.h"
#include "trace/chunks.h"
#include "trace/trace.h"

namespace mfu {
namespace {

// Operators, launches, kernels and arrows, about 900 bytes a round.
std::string some_events(std::size_t bytes, std::mt19937_64& random) {
  std::string text;
  for (std::int64_t i = 0; text.size() < bytes; ++i) {
    std::int64_t at = 1000 * i;
    text += fmt::format(
        R"(  {{ "ph": "X", "cat": "cpu_op", "name": "aten::op{}", "pid": 7, "tid": {}, "ts": {}.125,
    "dur": 400.5, "args": {{"External id": {}, "Sequence number": {}, "Input Dims": [[{}, 4], []],
    "Input type": ["float", "Scalar"], "name": "no event begins here"}} }},
  {{ "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 1,
    "ts": {}, "dur": 5,
    "args": {{"correlation": {}, "External id": {}}} }},
  {{"ph": "X", "cat": "kernel", "name": "kernel_{}<{{\"}},  {{\"ph\">", "pid": 0, "tid": 7,
    "ts": {}, "dur": 300,
    "args": {{"device": 0, "stream": 7, "correlation": {}, "grid": [1, 2, 3]}}}},
)",
        random() % 200, 1 + random() % 3, at, i, i, random() % 64, at + 10, i, i, random() % 500,
        at + 100, i);
  }
  return text.substr(0, text.size() - 2);
}

std::string document(const std::string& events) {
  return R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}],
"traceEvents": [)" +
         events + "], \"traceName\": \"t\", \"distributedInfo\": {\"rank\": 3}}";
}

template <typename T>
void add(std::string& to, const Column<T>& column) {
  to += fmt::format("{}:", column.size());
  to.append(reinterpret_cast<const char*>(column.data()), column.size() * sizeof(T));
}

// Everything that later stages see of a trace, or the reason why there is none.
std::string seen(const std::string& bytes, unsigned threads) {
  ReadOptions options;
  options.threads = threads;
  auto trace = read_trace_bytes(bytes, "t.json", options);
  if (!trace) return trace.error().message;
  const TraceCoverage& coverage = trace->coverage;
  std::string all = fmt::format("{} {} {} {} {} {} {}\n", coverage.events, coverage.skipped_events,
                                coverage.repaired_events, coverage.json_bytes,
                                coverage.truncated.value_or("whole"), coverage.truncated_at_byte,
                                coverage.notes.size());
  for (const Note& note : coverage.notes) all += note.code;
  for (std::uint32_t id = 0; id < trace->text_count(); ++id) all += trace->text(id);
  const DeviceEvents& device = trace->device;
  add(all, device.start_ns);
  add(all, device.duration_ns);
  add(all, device.name);
  add(all, device.kind);
  add(all, device.lane);
  add(all, device.correlation);
  add(all, device.launch);
  add(all, device.host);
  add(all, device.collective);
  const Launches& launches = trace->launches;
  add(all, launches.start_ns);
  add(all, launches.correlation);
  add(all, launches.host);
  const HostEvents& host = trace->host;
  add(all, host.start_ns);
  add(all, host.duration_ns);
  add(all, host.name);
  add(all, host.thread);
  add(all, host.inputs);
  add(all, host.kind);
  add(all, host.parent);
  add(all, host.forward);
  add(all, host.collective);
  add(all, host.backward);
  add(all, host.recomputed);
  for (const Thread& thread : trace->threads) {
    all += fmt::format("{} {} {} {};", thread.host_begin, thread.host_end, thread.launch_begin,
                       thread.launch_end);
  }
  for (const Clip& clip : trace->clips) all += fmt::format("{} {};", clip.event, clip.duration_ns);
  for (const ProfilerStep& step : trace->steps)
    all += fmt::format("{} {};", step.number, step.host);
  return all;
}

void expect_same(const std::string& bytes, const std::string& what) {
  std::string alone = seen(bytes, 1);
  EXPECT_GT(alone.size(), 20u) << what;
  for (unsigned threads : {2u, 3u, 7u}) {
    EXPECT_TRUE(seen(bytes, threads) == alone) << what << " with " << threads << " threads";
  }
}

TEST(Chunks, a_whole_file_is_the_same_for_any_number_of_threads) {
  std::mt19937_64 random(1);
  std::string text = document(some_events(6u << 20, random));
  expect_same(text, "plain");
  EXPECT_NE(seen(text, 3).find("aten::op199"), std::string::npos);
  expect_same(gzipped(text), "gzip");
  expect_same(zstd_compressed(text), "zstd");
  expect_same("[" + some_events(3u << 20, random), "a list that is not closed");
}

TEST(Chunks, damage_is_the_same_for_any_number_of_threads) {
  std::mt19937_64 random(2);
  std::string whole = document(some_events(4u << 20, random));
  for (int round = 0; round < 12; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 1 + round * 8; ++i) {
      damaged[random() % damaged.size()] = "\"{}[],:\\x\n"[random() % 10];
    }
    expect_same(damaged, fmt::format("round {}", round));
  }
  expect_same(whole.substr(0, whole.size() * 3 / 4), "cut off");
  expect_same(whole.substr(0, 3u << 20) + std::string(3u << 20, ' ') + whole.substr(3u << 20),
              "blanks in the middle");
}

TEST(Chunks, an_event_longer_than_any_chunk_is_read) {
  std::mt19937_64 random(3);
  std::string before = some_events(3u << 20, random), after = some_events(1u << 20, random);
  std::string longest = R"({"ph": "X", "cat": "cpu_op", "name": "aten::long", "pid": 7, "tid": 9,
"ts": 5, "dur": 1, "args": {"Call stack": ")" +
                        std::string(1500000, 'f') + "\"}}";
  std::string text = document(before + "," + longest + "," + after);
  expect_same(text, "long");
  EXPECT_NE(seen(text, 2).find("aten::long"), std::string::npos);
}

// Checks that chunks are really read ahead; otherwise the tests above could pass without that.
TEST(Chunks, long_files_are_read_ahead) {
  std::mt19937_64 random(4);
  std::string text = document(some_events(6u << 20, random));
  auto source = memory_source(text);
  ChunkReader chunks(*source, 3, nullptr);
  std::string again;
  std::size_t all = 0, clean = 0;
  while (const Chunk* chunk = chunks.next()) {
    again += chunk->text();
    ++all;
    clean += chunk->clean;
  }
  EXPECT_TRUE(again == text);
  EXPECT_GT(all, 20u);
  EXPECT_GT(clean + 11, all);  // the first eight are read alone, the last holds the list's end
}

TEST(Chunks, reading_can_be_left_in_the_middle) {
  std::mt19937_64 random(5);
  std::string text = document(some_events(6u << 20, random));
  for (int taken : {0, 1, 9, 12}) {
    auto source = memory_source(text);
    ChunkReader chunks(*source, 4, nullptr);
    for (int i = 0; i < taken; ++i) EXPECT_NE(chunks.next(), nullptr);
  }
}

// Every start is the start of several operators, and no run of rows is in order.
TEST(Chunks, operators_in_no_order_are_sorted_for_any_number_of_threads) {
  std::mt19937_64 random(11);
  std::string events;
  for (int i = 0; i < 120'000; ++i) {
    events += fmt::format(
        R"({{"ph":"X","cat":"cpu_op","name":"op{}","pid":7,"tid":{},"ts":{},"dur":{}}},)",
        random() % 9, 1 + random() % 2, random() % 20'000, random() % 5);
  }
  events.pop_back();
  std::string bytes = document(events);
  auto trace = read_trace_bytes(bytes, "t.json", {});
  ASSERT_TRUE(trace.has_value());
  const HostEvents& host = trace->host;
  ASSERT_EQ(host.start_ns.size(), 120'000u);
  for (std::size_t i = 1; i < host.start_ns.size(); ++i) {
    auto place = [&](std::size_t row) {
      return std::tuple(host.thread[row], host.start_ns[row], -host.duration_ns[row]);
    };
    ASSERT_LE(place(i - 1), place(i)) << i;
  }
  std::string alone = seen(bytes, 1);
  for (unsigned threads : {2u, 3u, 7u}) EXPECT_EQ(seen(bytes, threads), alone) << threads;
}

}  // namespace
}  // namespace mfu
