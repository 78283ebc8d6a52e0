#include <fmt/format.h>

#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/text.h"
#include "hardware/gpu_counters.h"

namespace mfu {

namespace {

// One count stands for so many FLOPs, so that 64 bits last for centuries.
constexpr std::uint64_t kFlopPerCount = 1'000'000;

// What the probe's thread and the source share. If the probe hangs, this outlives the source.
struct Shared {
  Shared(std::unique_ptr<TensorProbe> asked, const GpuRating& rated, const Clock& its_clock)
      : probe(std::move(asked)), rating(rated), clock(its_clock) {}

  std::unique_ptr<TensorProbe> probe;
  GpuRating rating;
  const Clock& clock;
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false, ended = false;
  double counts = 0;  // up to `at`
  std::chrono::nanoseconds at{};
  Result<FlopRate> rate = fail(ErrorCode::not_found, "no look at the GPU's counters yet");

  // The last rate is taken to hold until now.
  void advance(std::chrono::nanoseconds now) {
    if (rate.has_value() && now > at) {
      counts += rate->per_s * std::chrono::duration<double>(now - at).count() / kFlopPerCount;
    }
    at = now;
  }

  void run(std::chrono::milliseconds period) {
    std::unique_lock lock(mutex);
    while (!stop) {
      lock.unlock();
      Result<TensorLook> look = probe->look();
      Result<FlopRate> found =
          look.has_value() ? tensor_rate(*look, rating) : Result<FlopRate>(Failure{look.error()});
      lock.lock();
      advance(clock.now());
      rate = std::move(found);
      wake.wait_for(lock, period, [&] { return stop; });
    }
    ended = true;
    wake.notify_all();
  }
};

class TensorSource : public CounterSource {
 public:
  TensorSource(std::shared_ptr<Shared> shared, std::chrono::milliseconds period)
      : shared_(std::move(shared)), name_(shared_->probe->name()) {
    thread_ = std::thread([shared = shared_, period] { shared->run(period); });
  }
  ~TensorSource() override {
    std::unique_lock lock(shared_->mutex);
    shared_->stop = true;
    shared_->wake.notify_all();
    bool ended =
        shared_->wake.wait_for(lock, std::chrono::seconds(2), [&] { return shared_->ended; });
    lock.unlock();
    if (ended) {
      thread_.join();
    } else {
      thread_.detach();  // it hangs in the driver, and holds what it needs
    }
  }

  std::string name() const override { return name_; }

  Result<CounterSample> sample() override {
    std::lock_guard lock(shared_->mutex);
    if (!shared_->rate.has_value()) return Failure{shared_->rate.error()};
    shared_->advance(shared_->clock.now());
    return CounterSample{.at = shared_->at,
                         .values = {{.event = name_,
                                     .flop_per_count = kFlopPerCount,
                                     .value = static_cast<std::uint64_t>(shared_->counts)}}};
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::string name_;
  std::thread thread_;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<FlopRate> tensor_rate(const TensorLook& look, const GpuRating& rating) {
  // A value slightly above 1 is rounding. A percentage, or a field that does not exist, is far
  // above.
  if (!(look.active_fraction >= 0 && look.active_fraction <= 1.001)) {
    return fail(
        ErrorCode::unsupported,
        fmt::format("a tensor-pipe activity of {} cannot be: 0 to 1", look.active_fraction));
  }
  if (!(look.clock_hz > 0 && look.clock_hz < 1e11) || !(rating.clock_hz > 0)) {
    return fail(ErrorCode::unsupported,
                fmt::format("an SM clock of {} Hz does not fit the {} Hz of the peak",
                            look.clock_hz, rating.clock_hz));
  }
  return FlopRate{look.active_fraction * (look.clock_hz / rating.clock_hz) * rating.peak.per_s *
                  rating.useful_share};
}

std::shared_ptr<CounterSource> make_tensor_source(std::unique_ptr<TensorProbe> probe,
                                                  const GpuRating& rating,
                                                  std::chrono::milliseconds period,
                                                  const Clock& clock) {
  return std::make_shared<TensorSource>(std::make_shared<Shared>(std::move(probe), rating, clock),
                                        period);
}

std::string gpu_of_this_rank() {
  std::string rank = variable("LOCAL_RANK");
  if (rank.empty()) rank = variable("OMPI_COMM_WORLD_LOCAL_RANK");
  if (rank.empty()) rank = variable("SLURM_LOCALID");
  std::size_t number = static_cast<std::size_t>(std::strtoul(rank.c_str(), nullptr, 10));
  std::string visible = variable("CUDA_VISIBLE_DEVICES");
  if (visible.empty()) visible = variable("HIP_VISIBLE_DEVICES");
  if (visible.empty()) visible = variable("ROCR_VISIBLE_DEVICES");
  if (visible.empty()) return std::to_string(number);
  std::vector<std::string_view> each = split(visible, ',');
  // A launcher may give every rank only its own GPU. Then that is the only one in the list.
  return std::string(trim(each[number < each.size() ? number : 0]));
}

}  // namespace mfu
