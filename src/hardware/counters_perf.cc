// Floating-point events of this process by perf_event_open. Encodings as libpfm4 4.13 has them; an
// FMA counts twice in Intel's packed events and as two in AMD's, so no event needs a factor for it.
// Written to the kernel's interface and never run on hardware that has these events.
#include "hardware/counters_perf.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/text.h"
#include "hardware/cpu.h"
#include "mfu/counters.h"

namespace mfu {

namespace {

constexpr std::size_t kMostThreads = 1024;

struct FamilyModel {
  unsigned family = 0, model = 0;
};

FamilyModel family_model() {
  FamilyModel found;
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) {
    unsigned base = a >> 8 & 0xf;
    found.family = base == 0xf ? base + (a >> 20 & 0xff) : base;
    found.model = (a >> 4 & 0xf) | (a >> 12 & 0xf0);
  }
#endif
  return found;
}

// One event of one thread, and of those it begins later.
int open_event(const PerfEvent& event, int thread) {
  perf_event_attr wanted;
  std::memset(&wanted, 0, sizeof wanted);
  wanted.size = sizeof wanted;
  wanted.type = PERF_TYPE_RAW;
  wanted.config = event.config;
  wanted.inherit = 1;
  wanted.exclude_kernel = wanted.exclude_hv = 1;
  wanted.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return static_cast<int>(
      ::syscall(SYS_perf_event_open, &wanted, thread, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

class PerfCounters : public CounterSource {
 public:
  explicit PerfCounters(std::vector<PerfEvent> events)
      : events_(std::move(events)), files_(events_.size()) {}
  ~PerfCounters() override {
    for (const std::vector<int>& each : files_) {
      for (int file : each) ::close(file);
    }
  }
  PerfCounters(const PerfCounters&) = delete;
  PerfCounters& operator=(const PerfCounters&) = delete;

  std::string name() const override { return fmt::format("perf_event: {}", events_[0].name); }

  Result<void> open_thread(int thread) {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      int file = open_event(events_[i], thread);
      if (file < 0) {
        return fail(ErrorCode::unsupported,
                    fmt::format("the processor's counters cannot be read (perf_event_open {}: {}); "
                                "a virtual machine may hide them, and "
                                "/proc/sys/kernel/perf_event_paranoid above 2 forbids them",
                                events_[i].name,
                                std::error_code(errno, std::generic_category()).message()));
      }
      files_[i].push_back(file);
    }
    return {};
  }

  Result<CounterSample> sample() override {
    CounterSample sample{.at = std::chrono::steady_clock::now().time_since_epoch(), .values = {}};
    for (std::size_t i = 0; i < events_.size(); ++i) {
      CounterValue value{.event = std::string(events_[i].name),
                         .flop_per_count = events_[i].flop_per_count};
      std::chrono::nanoseconds enabled{}, running{};
      for (int file : files_[i]) {
        std::uint64_t read[3] = {};  // value, time enabled, time running
        if (::read(file, read, sizeof read) != sizeof read) {
          return fail(ErrorCode::io, fmt::format("{} cannot be read", events_[i].name));
        }
        value.value += read[0];
        enabled += std::chrono::nanoseconds(read[1]);
        running += std::chrono::nanoseconds(read[2]);
      }
      value.time_enabled = enabled;
      value.time_running = running;
      sample.values.push_back(std::move(value));
    }
    return sample;
  }

 private:
  std::vector<PerfEvent> events_;
  std::vector<std::vector<int>> files_;  // by event, one a thread
};

}  // namespace

std::vector<PerfEvent> flop_events(std::string_view vendor, unsigned family, unsigned model,
                                   bool avx512) {
  if (vendor == "amd") {
    bool zen2 = family == 0x17 && model >= 0x30;
    bool zen4 =
        family == 0x19 && ((model >= 0x10 && model <= 0x1f) || (model >= 0x60 && model <= 0x7f) ||
                           (model >= 0xa0 && model <= 0xaf));
    if (zen4) return {{"RETIRED_SSE_AVX_FLOPS", 0x1f03, 1}};
    if (zen2 || family == 0x19) return {{"RETIRED_SSE_AVX_FLOPS", 0xf03, 1}};
    return {};
  }
  // Broadwell (0x3d) and later; Haswell's 0x3f, 0x45 and 0x46 have none of them.
  bool counts = vendor == "intel" && family == 6 && model >= 0x3d && model != 0x3f &&
                model != 0x45 && model != 0x46;
  if (!counts) return {};
  std::vector<PerfEvent> events = {
      {"FP_ARITH_INST_RETIRED:SCALAR_DOUBLE", 0x1c7, 1},
      {"FP_ARITH_INST_RETIRED:SCALAR_SINGLE", 0x2c7, 1},
      {"FP_ARITH_INST_RETIRED:128B_PACKED_DOUBLE", 0x4c7, 2},
      {"FP_ARITH_INST_RETIRED:128B_PACKED_SINGLE", 0x8c7, 4},
      {"FP_ARITH_INST_RETIRED:256B_PACKED_DOUBLE", 0x10c7, 4},
      {"FP_ARITH_INST_RETIRED:256B_PACKED_SINGLE", 0x20c7, 8},
  };
  if (avx512) {
    events.push_back({"FP_ARITH_INST_RETIRED:512B_PACKED_DOUBLE", 0x40c7, 8});
    events.push_back({"FP_ARITH_INST_RETIRED:512B_PACKED_SINGLE", 0x80c7, 16});
  }
  return events;
}

Result<std::shared_ptr<CounterSource>> open_cpu_counters() {
  CpuIdentity identity = cpu_identity();
  FamilyModel is = family_model();
  std::vector<PerfEvent> events =
      flop_events(identity.vendor, is.family, is.model, identity.avx512f);
  if (events.empty()) {
    return fail(ErrorCode::unsupported,
                fmt::format("no floating-point events are known for {}", identity.brand));
  }
  auto counters = std::make_shared<PerfCounters>(std::move(events));
  std::error_code error;
  std::size_t threads = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::optional<std::uint64_t> thread = parse_count(entry.path().filename().string());
    if (!thread || ++threads > kMostThreads) continue;
    MFU_TRY(counters->open_thread(static_cast<int>(*thread)));
  }
  if (threads == 0) return fail(ErrorCode::unsupported, "/proc/self/task cannot be read");
  return std::shared_ptr<CounterSource>(counters);
}

}  // namespace mfu
