// Times near the limits of 64 bits. Sums and differences of them must not overflow: the tests also
// run under the sanitizers, which would report that.
#include <gtest/gtest.h>

#include <random>

#include "attribution/attribute.h"
#include "attribution/trace_text.h"

namespace mfu {
namespace {

// In microseconds, as a trace writes them: 2^63 ns, the last times that are accepted, the longest
// durations.
const std::vector<std::string> kTimes = {"9223372036854775.807",
                                         "-9223372036854775.808",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "18446744073709551615",
                                         "1e300",
                                         "-1e300",
                                         "4000000000000000",
                                         "-4000000000000000",
                                         "4000000000000000.001",
                                         "3999999999999999.999",
                                         "140737488355.328",
                                         "140737488355.329",
                                         "-140737488355.328",
                                         "0",
                                         "-1",
                                         "1",
                                         "100",
                                         "1700000000000000.5",
                                         "1700000000000100"};
const std::vector<std::string> kDurations = {"9223372036854775.807",
                                             "18446744073709551615",
                                             "1e300",
                                             "140737488355.328",
                                             "140737488355.329",
                                             "140737488355",
                                             "1000000000",
                                             "-1",
                                             "0",
                                             "1",
                                             "50"};

struct Extremes {
  std::mt19937 random;

  const std::string& any(const std::vector<std::string>& of) { return of[random() % of.size()]; }

  std::string event() {
    static const std::vector<std::string> kKinds = {
        R"("cat":"kernel","name":"volta_sgemm","pid":0,"tid":7)",
        R"("cat":"kernel","name":"ncclKernel_AllReduce","pid":0,"tid":8)",
        R"("cat":"kernel","name":"elementwise","pid":0,"tid":9)",
        R"("cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7)",
        R"("cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1)",
        R"("cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":1,"tid":1)",
        R"("cat":"cpu_op","name":"aten::mm","pid":1,"tid":1)",
        R"("cat":"cpu_op","name":"aten::add","pid":1,"tid":2)",
        R"("cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1)",
        R"("cat":"user_annotation","name":"enumerate(DataLoader)#x.__next__","pid":1,"tid":1)",
        R"("cat":"python_function","name":"train.py(1): main","pid":1,"tid":1)"};
    return fmt::format(
        R"({{"ph":"X",{},"ts":{},"dur":{},"args":{{"correlation":{},"Input Dims":[[8,8],[8,8]],"Input type":["float","float"]}}}})",
        any(kKinds), any(kTimes), any(kDurations), random() % 4);
  }

  std::string trace(int rank) {
    std::string events = event();
    for (std::size_t more = random() % 30; more > 0; --more) events += ",\n" + event();
    return fmt::format(R"({{"distributedInfo":{{"rank":{},"world_size":3}},"traceEvents":[{}]}})",
                       rank, events);
  }
};

TEST(Extremes, no_sum_or_difference_of_times_leaves_64_bits_and_ledgers_add_up) {
  std::size_t explained = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Extremes extremes{std::mt19937(seed)};
    std::vector<Trace> traces;
    for (int rank = 0; rank < 1 + static_cast<int>(seed % 3); ++rank) {
      Result<Trace> read = read_trace_bytes(extremes.trace(rank), "extreme.json");
      if (read.has_value()) traces.push_back(std::move(read).value());
    }
    for (const char* window : {"all", "steps", "0:9223372036854775807", "9e9s:", "-9e9s:9e9s"}) {
      AttributionOptions options;
      options.peak = FlopRate{1e12};
      options.timeline = true;
      options.window = *parse_window(window);
      Result<Attribution> found = attribute(traces, options);
      if (!found.has_value()) continue;
      ++explained;
      Ledger sum;
      for (const RankAttribution& rank : found->ranks) {
        ASSERT_EQ(rank.ledger.total_ns(), rank.window.duration_ns()) << seed;
        ASSERT_GE(rank.window.duration_ns(), 0) << seed;
        sum += rank.ledger;
      }
      ASSERT_EQ(sum.total_ns(), found->ledger.total_ns()) << seed;
    }
  }
  EXPECT_GT(explained, 3000u);
}

TEST(Extremes, one_event_at_time_zero_does_not_make_the_window) {
  TraceText text;
  const std::int64_t now = 1'700'000'000'000'000'000;
  text.kernel("stray", 0, 10, 7, 1);
  for (int i = 0; i < 5; ++i) text.kernel("near", now + 100 * i, 60, 7, 2 + i);
  Result<Trace> trace = text.read();
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->device.size(), 5u);
  EXPECT_EQ(trace->coverage.skipped_events, 1u);
  Result<Attribution> found = attribute({&*trace, 1}, {});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->ranks[0].window.duration_ns(), 460);
  const std::vector<Note>& notes = found->ranks[0].notes;
  Note away("events_days_away", {{"count", std::int64_t{1}}});
  EXPECT_NE(std::find(notes.begin(), notes.end(), away), notes.end());
}

TEST(Extremes, many_long_events_on_many_streams_are_at_the_most_the_largest_number) {
  TraceText text;
  const std::int64_t long_ns = std::int64_t{1} << 47;
  for (int stream = 0; stream < 3000; ++stream) {
    text.kernel("long", 0, long_ns, stream, stream);
    text.kernel("long", long_ns, long_ns, stream, 3000 + stream);
  }
  Result<Trace> trace = text.read();
  ASSERT_TRUE(trace.has_value());
  Result<Attribution> found = attribute({&*trace, 1}, {});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->ranks[0].ledger.total_ns(), 2 * long_ns);
  EXPECT_EQ(found->ranks[0].kernels.at(0).duration_ns, 6000 * long_ns);
}

TEST(Extremes, a_host_of_overlapping_operators_stays_at_the_largest_number) {
  TraceText text;
  const std::int64_t long_ns = std::int64_t{1} << 47;
  for (int i = 0; i < 70000; ++i) text.op("aten::add", i, long_ns, 1);
  Result<Trace> trace = text.read();
  ASSERT_TRUE(trace.has_value());
  Result<Attribution> found = attribute({&*trace, 1}, {});
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(found->ranks[0].ledger.total_ns(), found->ranks[0].window.duration_ns());
  EXPECT_EQ(found->ranks[0].kernels.at(0).duration_ns, INT64_MAX);
}

}  // namespace
}  // namespace mfu
