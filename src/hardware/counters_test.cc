#include "hardware/counters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>

namespace mfu {
namespace {

// A processor that has the given events, and a kernel that answers as the test says.
class FakeCounters final : public CounterSystem {
 public:
  struct Log {
    std::map<int, Count> counts;  // by descriptor
    std::vector<std::string> opened;
    int closed = 0;
  };

  FakeCounters(std::map<std::string, std::uint64_t> events, int error, Log& log)
      : events_(std::move(events)), error_(error), log_(log) {}

  Result<std::uint64_t> encode(const std::string& event) override {
    auto found = events_.find(event);
    if (found == events_.end()) return fail(ErrorCode::not_found, event);
    last_ = event;
    return found->second;
  }
  int open(std::uint64_t, const CounterOptions&) override {
    if (error_ != 0) return -error_;
    log_.opened.push_back(last_);
    return static_cast<int>(log_.opened.size());
  }
  void close(int) override { ++log_.closed; }
  Result<Count> read(int descriptor) override { return log_.counts[descriptor]; }
  std::uint64_t vector_units() override { return 4; }  // 512 bits, as an A64FX has

 private:
  std::map<std::string, std::uint64_t> events_;
  int error_;
  Log& log_;
  std::string last_;
};

std::map<std::string, std::uint64_t> intel(bool wide) {
  std::map<std::string, std::uint64_t> events;
  for (const char* width : {"SCALAR", "128B_PACKED", "256B_PACKED", "512B_PACKED"}) {
    if (!wide && std::string(width).starts_with("512")) continue;
    for (const char* type : {"_DOUBLE", "_SINGLE"}) {
      events[std::string("FP_ARITH_INST_RETIRED:") + width + type] = 0xc7;
    }
  }
  return events;
}

TEST(Counters, intel_instructions_count_their_lanes) {
  FakeCounters::Log log;
  auto counters = CounterOpener::open(std::make_unique<FakeCounters>(intel(true), 0, log), {});
  ASSERT_TRUE(counters) << counters.error().message;
  ASSERT_EQ(counters->events().size(), 8u);
  for (int i = 1; i <= 8; ++i) log.counts[i] = {.value = 100, .enabled_ns = 10, .running_ns = 10};
  auto retired = counters->read();
  ASSERT_TRUE(retired);
  // Doubles 1 + 2 + 4 + 8, singles 1 + 4 + 8 + 16.
  EXPECT_EQ(retired->flop, FlopCount(100 * (15 + 29)));
  EXPECT_EQ(retired->fp64, FlopCount(1500));
  EXPECT_EQ(retired->counted.value, 1);
}

TEST(Counters, a_processor_without_the_widest_registers) {
  FakeCounters::Log log;
  auto counters = CounterOpener::open(std::make_unique<FakeCounters>(intel(false), 0, log), {});
  ASSERT_TRUE(counters);
  EXPECT_EQ(counters->events().size(), 6u);
}

TEST(Counters, amd_counts_operations_and_does_not_tell_their_type) {
  FakeCounters::Log log;
  auto counters = CounterOpener::open(
      std::make_unique<FakeCounters>(
          std::map<std::string, std::uint64_t>{{"RETIRED_SSE_AVX_FLOPS:ANY", 0xf03}}, 0, log),
      {});
  ASSERT_TRUE(counters);
  log.counts[1] = {.value = 12345, .enabled_ns = 7, .running_ns = 7};
  auto retired = counters->read();
  EXPECT_EQ(retired->flop, FlopCount(12345));
  EXPECT_FALSE(retired->fp64);
}

TEST(Counters, arm_counts_scalable_vectors_per_128_bits) {
  FakeCounters::Log log;
  std::map<std::string, std::uint64_t> events;
  for (const char* type : {"DP", "SP", "HP"}) {
    for (const char* kind : {"FIXED", "SCALE"}) {
      events[std::string("FP_") + type + "_" + kind + "_OPS_SPEC"] = 0x80c2;
    }
  }
  auto counters = CounterOpener::open(std::make_unique<FakeCounters>(events, 0, log), {});
  ASSERT_TRUE(counters);
  ASSERT_EQ(counters->events().size(), 6u);
  for (int i = 1; i <= 6; ++i) log.counts[i] = {.value = 10, .enabled_ns = 1, .running_ns = 1};
  auto retired = counters->read();
  // For each type: 10 fixed operations and 10 × 512/128 scalable ones.
  EXPECT_EQ(retired->flop, FlopCount(3 * (10 + 40)));
  EXPECT_EQ(retired->fp64, FlopCount(50));
}

TEST(Counters, an_arm_processor_that_does_not_tell_types_apart) {
  FakeCounters::Log log;
  auto counters =
      CounterOpener::open(std::make_unique<FakeCounters>(
                              std::map<std::string, std::uint64_t>{{"FP_FIXED_OPS_SPEC", 0x80c1},
                                                                   {"FP_SCALE_OPS_SPEC", 0x80c0}},
                              0, log),
                          {});
  ASSERT_TRUE(counters);
  for (int i = 1; i <= 2; ++i) log.counts[i] = {.value = 10, .enabled_ns = 1, .running_ns = 1};
  auto retired = counters->read();
  EXPECT_EQ(retired->flop, FlopCount(10 + 40));
  EXPECT_FALSE(retired->fp64);
}

TEST(Counters, counters_that_took_turns_are_scaled_and_said) {
  FakeCounters::Log log;
  auto counters = CounterOpener::open(std::make_unique<FakeCounters>(intel(false), 0, log), {});
  ASSERT_TRUE(counters);
  for (int i = 1; i <= 6; ++i) log.counts[i] = {.value = 0, .enabled_ns = 100, .running_ns = 100};
  log.counts[1] = {.value = 1000, .enabled_ns = 1'000'000'000'000, .running_ns = 250'000'000'000};
  auto retired = counters->read();
  ASSERT_TRUE(retired);
  EXPECT_EQ(retired->flop, FlopCount(4000));
  EXPECT_EQ(retired->counted.value, 0.25);
  log.counts[2] = {.value = 0, .enabled_ns = 100, .running_ns = 0};
  EXPECT_FALSE(counters->read());
}

TEST(Counters, refusals_say_what_mends_them) {
  struct Case {
    int error;
    std::string_view says;
  };
  for (const Case& one :
       {Case{EACCES, "paranoid"}, Case{EPERM, "CAP_PERFMON"}, Case{ENOENT, "virtual"},
        Case{ENOSYS, "perf_event"}, Case{EMFILE, "open"}, Case{ESRCH, "process"}}) {
    FakeCounters::Log log;
    auto counters =
        CounterOpener::open(std::make_unique<FakeCounters>(intel(true), one.error, log), {});
    ASSERT_FALSE(counters);
    EXPECT_NE(counters.error().message.find(one.says), std::string::npos)
        << counters.error().message;
  }
  FakeCounters::Log log;
  auto none = CounterOpener::open(
      std::make_unique<FakeCounters>(std::map<std::string, std::uint64_t>{}, 0, log), {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::unsupported);
}

TEST(Counters, every_counter_is_closed_again_also_when_moved) {
  FakeCounters::Log log;
  {
    auto counters = CounterOpener::open(std::make_unique<FakeCounters>(intel(true), 0, log), {});
    ASSERT_TRUE(counters);
    FlopCounters moved = std::move(counters).value();
    FlopCounters again = std::move(moved);
    EXPECT_EQ(log.closed, 0);
  }
  EXPECT_EQ(log.closed, 8);
}

#if defined(__x86_64__)  // libpfm4 has the tables of its own architecture only
// Asks for the encodings of processors other than this one, which the library's own switch allows.
// It runs in a process of its own, because the switch stays on.
TEST(CountersDeathTest, libpfm_4_knows_the_events_we_ask_for) {
  auto child = [] {
    ::setenv("LIBPFM_ENCODE_INACTIVE", "1", 1);
    auto system = linux_counters();
    auto is = [&](const char* event, std::uint64_t config) {
      auto found = system->encode(event);
      return found && *found == config;
    };
    auto missing = system->encode("FP_ARITH_INST_RETIRED:SCALAR_DOUBLE");
    // libpfm4 is not installed
    if (!missing && missing.error().code == ErrorCode::unsupported) ::_exit(0);
    bool good = is("skx::FP_ARITH_INST_RETIRED:512B_PACKED_SINGLE", 0x80c7) &&
                is("icx::FP_ARITH_INST_RETIRED:SCALAR_DOUBLE", 0x1c7) &&
                is("spr::FP_ARITH_INST_RETIRED:256B_PACKED_DOUBLE", 0x10c7) &&
                is("amd64_fam19h_zen4::RETIRED_SSE_AVX_FLOPS:ANY", 0x1f03) &&
                !system->encode("skx::NO_SUCH_EVENT");
    ::_exit(good ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}
#endif

// This machine must give either counts or a reason.
TEST(Counters, this_machine_counts_or_says_why_not) {
  auto counters = FlopCounters::open({});
  if (!counters) {
    EXPECT_EQ(counters.error().code, ErrorCode::unsupported) << counters.error().message;
    EXPECT_FALSE(counters.error().message.empty());
    return;
  }
  volatile double sum = 0;
  for (int i = 0; i < 1'000'000; ++i) sum = sum + 1.5;
  auto retired = counters->read();
  ASSERT_TRUE(retired) << retired.error().message;
  EXPECT_GE(retired->flop.to_double(), 0.9e6);
}

}  // namespace
}  // namespace mfu
