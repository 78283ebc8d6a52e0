#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "hardware/counters.h"
#include "hardware/driver.h"

namespace mfu {
namespace {

// One count means `flop` operations: a packed instruction does one per lane. The processor already
// counts a fused multiply-add twice (Intel SDM vol. 3, FP_ARITH_INST_RETIRED; AMD PPR, PMCx003:
// "MacFLOPs count as 2").
struct Event {
  const char* name;
  std::uint64_t flop;
  enum class Type { fp64, narrower, either } type;
  bool optional;          // processors without the width lack it
  bool scalable = false;  // `flop` is for each 128 bits of an SVE vector
};

constexpr Event kIntel[] = {
    {"FP_ARITH_INST_RETIRED:SCALAR_DOUBLE", 1, Event::Type::fp64, false},
    {"FP_ARITH_INST_RETIRED:SCALAR_SINGLE", 1, Event::Type::narrower, false},
    {"FP_ARITH_INST_RETIRED:128B_PACKED_DOUBLE", 2, Event::Type::fp64, false},
    {"FP_ARITH_INST_RETIRED:128B_PACKED_SINGLE", 4, Event::Type::narrower, false},
    {"FP_ARITH_INST_RETIRED:256B_PACKED_DOUBLE", 4, Event::Type::fp64, false},
    {"FP_ARITH_INST_RETIRED:256B_PACKED_SINGLE", 8, Event::Type::narrower, false},
    {"FP_ARITH_INST_RETIRED:512B_PACKED_DOUBLE", 8, Event::Type::fp64, true},
    {"FP_ARITH_INST_RETIRED:512B_PACKED_SINGLE", 16, Event::Type::narrower, true},
};
// Counts operations, not instructions.
constexpr Event kAmd[] = {{"RETIRED_SSE_AVX_FLOPS:ANY", 1, Event::Type::either, false}};

// Arm counts operations too, those of scalable vectors per 128 bits (Arm ARM DDI 0487, D14.3,
// events 0x80C0 to 0x80C7). They are counted when they execute, so a mispredicted branch can add
// some.
constexpr Event kArmByType[] = {
    {"FP_DP_FIXED_OPS_SPEC", 1, Event::Type::fp64, false},
    {"FP_DP_SCALE_OPS_SPEC", 1, Event::Type::fp64, false, true},
    {"FP_SP_FIXED_OPS_SPEC", 1, Event::Type::narrower, false},
    {"FP_SP_SCALE_OPS_SPEC", 1, Event::Type::narrower, false, true},
    {"FP_HP_FIXED_OPS_SPEC", 1, Event::Type::narrower, true},
    {"FP_HP_SCALE_OPS_SPEC", 1, Event::Type::narrower, true, true},
};
constexpr Event kArm[] = {
    {"FP_FIXED_OPS_SPEC", 1, Event::Type::either, false},
    {"FP_SCALE_OPS_SPEC", 1, Event::Type::either, false, true},
};

// These few functions of libpfm4's interface are needed (perfmon/pfmlib.h and pfmlib_perf_event.h).
struct PerfEncoding {
  perf_event_attr* attributes;
  char** full_name;
  std::size_t size;
  int index, cpu, flags, padding;
};
constexpr int kUserLevel = 0x8;
constexpr int kPerfEvent = 1;

class LinuxCounters final : public CounterSystem {
 public:
  Result<std::uint64_t> encode(const std::string& event) override {
    static const Library kLibrary("libpfm.so.4");
    auto* initialize = kLibrary.open() ? kLibrary.symbol<int()>("pfm_initialize") : nullptr;
    auto* encoding =
        kLibrary.open()
            ? kLibrary.symbol<int(const char*, int, int, void*)>("pfm_get_os_event_encoding")
            : nullptr;
    if (initialize == nullptr || encoding == nullptr) {
      return fail(
          ErrorCode::unsupported,
          "libpfm.so.4 is not there, which knows the events (Debian: apt-get install libpfm4)");
    }
    static const int kStarted = initialize();
    perf_event_attr attributes = {};
    PerfEncoding request{&attributes, nullptr, sizeof(PerfEncoding), 0, 0, 0, 0};
    int code = kStarted != 0 ? kStarted : encoding(event.c_str(), kUserLevel, kPerfEvent, &request);
    if (code != 0) {
      return fail(ErrorCode::not_found,
                  fmt::format("libpfm4 knows no {} on this processor", event));
    }
    return attributes.config;
  }

  int open(std::uint64_t config, const CounterOptions& options) override {
    perf_event_attr attributes = {};
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_RAW;
    attributes.config = config;
    attributes.inherit = 1;
    attributes.exclude_kernel = 1;  // what paranoid 2 allows; arithmetic is in user space
    attributes.exclude_hv = 1;
    attributes.disabled = options.start_at_exec ? 1 : 0;
    attributes.enable_on_exec = options.start_at_exec ? 1 : 0;
    attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    long opened = ::syscall(SYS_perf_event_open, &attributes, static_cast<pid_t>(options.process),
                            -1, -1, PERF_FLAG_FD_CLOEXEC);
    return opened >= 0 ? static_cast<int>(opened) : -errno;
  }

  void close(int descriptor) override { ::close(descriptor); }

  std::uint64_t vector_units() override {
#ifdef PR_SVE_GET_VL
    int length = ::prctl(PR_SVE_GET_VL, 0, 0, 0, 0);
    if (length > 0) return static_cast<std::uint64_t>(length & PR_SVE_VL_LEN_MASK) / 16;
#endif
    return 1;
  }

  Result<Count> read(int descriptor) override {
    std::array<std::uint64_t, 3> values{};
    ssize_t got = ::read(descriptor, values.data(), sizeof values);
    if (got != static_cast<ssize_t>(sizeof values)) {
      return fail(ErrorCode::io,
                  fmt::format("a counter could not be read: {}", std::strerror(errno)));
    }
    return Count{values[0], values[1], values[2]};
  }
};

Failure refusal(int error) {
  if (error == EACCES || error == EPERM) {
    return fail(
        ErrorCode::unsupported,
        "perf_event refuses this user: sysctl kernel.perf_event_paranoid=2 or lower, or run "
        "with CAP_PERFMON (a container may have to allow the call)");
  }
  if (error == ENOENT || error == EOPNOTSUPP || error == ENODEV || error == EINVAL) {
    return fail(ErrorCode::unsupported,
                "this machine (often a virtual one) has no floating-point counters to open");
  }
  if (error == ESRCH) {
    return fail(ErrorCode::invalid_argument, "there is no such process to count");
  }
  if (error == ENOSYS) {
    return fail(ErrorCode::unsupported, "this kernel, or a filter on it, has no perf_event");
  }
  return fail(ErrorCode::io, fmt::format("perf_event_open: {}", std::strerror(error)));
}

}  // namespace

struct FlopCounters::State {
  struct Opened {
    const Event* event;
    int descriptor;
  };
  std::unique_ptr<CounterSystem> system;
  std::vector<Opened> opened;
  std::vector<std::string> names;

  ~State() {
    for (const Opened& one : opened) system->close(one.descriptor);
  }
};

FlopCounters::FlopCounters(std::unique_ptr<State> state) : state_(std::move(state)) {}
FlopCounters::FlopCounters(FlopCounters&&) noexcept = default;
FlopCounters& FlopCounters::operator=(FlopCounters&&) noexcept = default;
FlopCounters::~FlopCounters() = default;

const std::vector<std::string>& FlopCounters::events() const {
  return state_->names;
}

std::unique_ptr<CounterSystem> linux_counters() {
  return std::make_unique<LinuxCounters>();
}

// Takes the first maker whose first event the processor has, and opens each of its events. Opening
// is the test, because libpfm4 goes by CPUID and also names events that a virtual machine does not
// have.
Result<FlopCounters> CounterOpener::open(std::unique_ptr<CounterSystem> system,
                                         const CounterOptions& options) {
  auto state = std::make_unique<FlopCounters::State>();
  state->system = std::move(system);
  for (std::span<const Event> maker :
       {std::span<const Event>(kIntel), std::span<const Event>(kAmd),
        std::span<const Event>(kArmByType), std::span<const Event>(kArm)}) {
    for (const Event& event : maker) {
      Result<std::uint64_t> config = state->system->encode(event.name);
      bool other_maker = &event == &maker.front();
      if (!config && config.error().code != ErrorCode::not_found) return Failure{config.error()};
      if (!config && other_maker) break;
      if (!config && event.optional) continue;
      if (!config) return Failure{config.error()};
      int descriptor = state->system->open(*config, options);
      if (descriptor < 0) return refusal(-descriptor);
      state->opened.push_back({&event, descriptor});
      state->names.emplace_back(event.name);
    }
    if (!state->opened.empty()) return FlopCounters(std::move(state));
  }
  return fail(ErrorCode::unsupported,
              "libpfm4 knows no event of this processor that counts floating-point operations");
}

Result<FlopCounters> FlopCounters::open(const CounterOptions& options) {
  return CounterOpener::open(linux_counters(), options);
}

Result<RetiredFlop> FlopCounters::read() const {
  RetiredFlop retired{.flop = {}, .fp64 = FlopCount(0), .counted = {1}};
  for (const State::Opened& one : state_->opened) {
    CounterSystem::Count count = MFU_TRY(state_->system->read(one.descriptor));
    FlopCount flop = FlopCount(count.value) * one.event->flop;
    if (one.event->scalable) flop = flop * state_->system->vector_units();
    if (count.running_ns < count.enabled_ns) {
      // If counters took turns, scale to the whole time, as perf does. A counter that never ran
      // tells nothing.
      if (count.running_ns == 0) {
        return fail(
            ErrorCode::unsupported,
            fmt::format("{} never got a counter: another profiler holds them", one.event->name));
      }
      double share = static_cast<double>(count.running_ns) / static_cast<double>(count.enabled_ns);
      retired.counted.value = std::min(retired.counted.value, share);
      Uint128 scaled = flop.wide() / count.running_ns * count.enabled_ns +
                       flop.wide() % count.running_ns * count.enabled_ns / count.running_ns;
      flop = FlopCount::from_wide(scaled);
    }
    retired.flop += flop;
    if (one.event->type == Event::Type::either) retired.fp64 = std::nullopt;
    if (one.event->type == Event::Type::fp64 && retired.fp64) *retired.fp64 += flop;
  }
  return retired;
}

}  // namespace mfu
