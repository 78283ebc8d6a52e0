#include <gtest/gtest.h>

#include "trace/collective.h"

namespace mfu {
namespace {

// One rank that calls all-reduces of the given sizes; starts and ends are in µs.
struct Call {
  double start_us, end_us;
  int elements;
};

Trace rank_of(const std::vector<Call>& calls, double clock_us) {
  std::string events;
  int correlation = 1;
  for (const Call& call : calls) {
    auto at = [&](double us) { return std::to_string(us + clock_us); };
    std::string id = std::to_string(correlation++);
    events +=
        R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"dur":2,"ts":)" +
        at(call.start_us - 100) +
        R"(,"args":{"Collective name":"allreduce","dtype":"Float","Group size":2,"Process Group Name":"0","In msg nelems":)" +
        std::to_string(call.elements) + "}},\n" +
        R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"dur":0.5,"ts":)" +
        at(call.start_us - 99) + R"(,"args":{"correlation":)" + id + "}},\n" +
        R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32","pid":0,"tid":9,"ts":)" +
        at(call.start_us) + ",\"dur\":" + std::to_string(call.end_us - call.start_us) +
        R"(,"args":{"stream":9,"device":0,"correlation":)" + id + "}},\n";
  }
  auto trace = read_trace_bytes("{\"traceEvents\":[" + events + "{\"ph\":\"M\"}]}", "t");
  EXPECT_TRUE(trace.has_value());
  return std::move(trace).value();
}

TEST(Match, parts_wait_from_transfer_on_a_common_clock) {
  // Rank 1's clock is 5 s ahead. Rank 1 comes 40 µs late to the first all-reduce and 25 µs early to
  // the second.
  std::vector<Trace> traces;
  traces.push_back(rank_of({{1000, 1100, 1000000}, {2025, 2125, 500}, {3000, 3010, 7}}, 0));
  traces.push_back(rank_of({{1040, 1100, 1000000}, {2000, 2125, 500}, {3000, 3010, 7}}, 5000000));
  CollectiveMatch match = match_collectives(traces);
  ASSERT_EQ(match.collectives.size(), 3u);
  EXPECT_EQ(match.clocks[1].offset_ns, 5000000000);
  EXPECT_EQ(match.clocks[1].spread_ns, 0);
  const MatchedCollective& first = match.collectives[0];
  EXPECT_EQ(first.name, "allreduce");
  EXPECT_EQ(first.group, "0");
  EXPECT_EQ(first.straggler, 1u);
  EXPECT_EQ(first.parts[0].wait_ns, 40000);
  EXPECT_EQ(first.parts[0].transfer_ns, 60000);
  EXPECT_EQ(first.parts[1].wait_ns, 0);
  EXPECT_EQ(first.parts[1].lateness_ns, 40000);
  // 4 MB in 60 µs; of two ranks each sends half twice: bus = algorithm × 2(2-1)/2.
  EXPECT_EQ(first.bytes, 4000000);
  EXPECT_NEAR(*first.algorithm_bytes_per_s, 4e6 / 60e-6, 1e3);
  EXPECT_NEAR(*first.bus_bytes_per_s, 4e6 / 60e-6, 1e3);
  EXPECT_EQ(match.collectives[1].straggler, 0u);
  EXPECT_EQ(match.collectives[1].parts[1].wait_ns, 25000);
}

TEST(Match, a_rank_that_began_later_is_shifted_by_size) {
  std::vector<Trace> traces;
  traces.push_back(
      rank_of({{1000, 1100, 1}, {2000, 2100, 2}, {3000, 3100, 3}, {4000, 4100, 4}}, 0));
  traces.push_back(rank_of({{3010, 3100, 3}, {4020, 4100, 4}}, 0));
  CollectiveMatch match = match_collectives(traces);
  ASSERT_EQ(match.collectives.size(), 2u);
  EXPECT_EQ(match.collectives[0].parts[0].wait_ns, 10000);
  EXPECT_EQ(match.collectives[1].parts[0].wait_ns, 20000);
}

TEST(Match, one_rank_alone_matches_nothing) {
  std::vector<Trace> traces;
  traces.push_back(rank_of({{1000, 1100, 1}}, 0));
  EXPECT_TRUE(match_collectives(traces).collectives.empty());
  EXPECT_TRUE(match_collectives({}).collectives.empty());
}

TEST(Match, kinds_are_the_same_behind_every_name) {
  EXPECT_EQ(collective_kind("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"), "allreduce");
  EXPECT_EQ(collective_kind("nccl:all_reduce"), "allreduce");
  EXPECT_EQ(collective_kind("_allgather_base"), "allgather");
  EXPECT_EQ(collective_kind("reduce_scatter_tensor"), "reducescatter");
  EXPECT_EQ(collective_kind("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"), "alltoall");
}

}  // namespace
}  // namespace mfu
