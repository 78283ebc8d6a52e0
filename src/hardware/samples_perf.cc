#include <filesystem>

#include "base/text.h"
#include "hardware/samples.h"
#include "mfu/machine.h"

namespace mfu {

namespace {

constexpr std::size_t kThreadsMost = 256;

// What all threads of this process retired, including threads that start later.
class RetiredSource : public CounterSource {
 public:
  explicit RetiredSource(std::vector<FlopCounters> threads) : threads_(std::move(threads)) {}

  std::string name() const override { return "perf_event: " + threads_.front().events().front(); }

  Result<CounterSample> sample() override {
    FlopCount sum;
    for (const FlopCounters& each : threads_) {
      RetiredFlop retired = MFU_TRY(each.read());
      sum += retired.flop;
    }
    // The values are already scaled if events took turns.
    return CounterSample{.at = std::chrono::steady_clock::now().time_since_epoch(),
                         .values = {{.event = "retired FLOP", .value = sum.low()}}};
  }

 private:
  std::vector<FlopCounters> threads_;
};

}  // namespace

Result<std::shared_ptr<CounterSource>> open_cpu_counters() {
  std::vector<FlopCounters> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::optional<std::uint64_t> thread = parse_count(entry.path().filename().string());
    if (!thread || threads.size() == kThreadsMost) continue;
    threads.push_back(MFU_TRY(FlopCounters::open({.process = static_cast<std::int64_t>(*thread)})));
  }
  if (threads.empty()) return fail(ErrorCode::unsupported, "/proc/self/task cannot be read");
  return std::shared_ptr<CounterSource>(std::make_shared<RetiredSource>(std::move(threads)));
}

}  // namespace mfu
