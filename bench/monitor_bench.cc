// What the monitor costs the loop: log_step with sinks on, its slowest thousandth beside an empty
// loop's in the same run, and tokens counted from two threads.
//   build/release/bench/monitor_bench [FOLDER]
#include <mfu/mfu.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 60, kSteps = 2000;

double since_ns(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

struct Times {
  double best_ns = 1e18;        // a call, best round
  std::vector<double> each_ns;  // of every call
};

// Rounds that the queue can hold, `between` them what drains it: not timed.
template <typename Step, typename Between>
Times timed(const Step& step, const Between& between) {
  Times times;
  std::uint64_t number = 0;
  for (int round = 0; round < kRounds; ++round) {
    Clock::time_point start = Clock::now();
    for (int i = 0; i < kSteps; ++i) step(number++);
    times.best_ns = std::min(times.best_ns, since_ns(start) / kSteps);
    between();
    for (int i = 0; i < kSteps; ++i) {
      Clock::time_point one = Clock::now();
      step(number++);
      times.each_ns.push_back(since_ns(one));
    }
    between();
  }
  std::sort(times.each_ns.begin(), times.each_ns.end());
  return times;
}

double quantile(const Times& times, double share) {
  return times
      .each_ns[static_cast<std::size_t>(share * static_cast<double>(times.each_ns.size() - 1))];
}

void print(const char* what, const Times& times, const char* target) {
  std::printf("%-44s %8.1f %8.0f %8.0f   %s\n", what, times.best_ns, quantile(times, 0.5),
              quantile(times, 0.999), target);
}

mfu::MonitorOptions options_in(const std::string& folder) {
  mfu::MonitorOptions options;
  options.config.mode = mfu::EstimateMode{};
  options.config.run_dir = folder + "/run";
  options.config.output_dir = folder;
  options.config.csv = folder + "/steps.csv";
  options.config.tensorboard = folder + "/board";
  options.config.prometheus = folder + "/mfu.prom";
  options.model = *mfu::model_of_shape({.layers = 32, .hidden = 4096, .heads = 32, .vocab = 32000});
  options.peak = mfu::FlopRate{989.4e12};
  return options;
}

double tokens_per_s(int threads) {
  mfu::TokenTracker tracker;
  constexpr std::uint64_t kEach = 20'000'000;
  std::vector<std::thread> running;
  Clock::time_point start = Clock::now();
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&] {
      for (std::uint64_t i = 0; i < kEach; ++i) tracker.add(1);
    });
  }
  for (std::thread& thread : running) thread.join();
  double taken = since_ns(start) / 1e9;
  bool exact = tracker.take().generated == kEach * static_cast<std::uint64_t>(threads);
  return exact ? static_cast<double>(threads) * kEach / taken : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = argc > 1 ? argv[1] : "/tmp/mfu-monitor-bench";
  auto opened = mfu::Monitor::open(options_in(folder));
  if (!opened.has_value()) return 1;
  mfu::Monitor& monitor = **opened;
  mfu::StepShape shape = mfu::StepShape::of(8, 4096);
  auto flush = [&] { monitor.flush(std::chrono::seconds(60)); };
  volatile std::uint64_t sink = 0;
  Times empty = timed([&](std::uint64_t n) { sink = n; }, [] {});
  Times logged = timed(
      [&](std::uint64_t n) {
        monitor.log_step({.step = n,
                          .epoch = 1,
                          .loss = 2.5,
                          .grad_norm = 0.7,
                          .learning_rate = 1e-4,
                          .shape = shape});
      },
      flush);
  std::uint64_t dropped = monitor.status().dropped;
  // Faster than anybody drains: the queue is full, as behind a disk that stalls.
  Times full =
      timed([&](std::uint64_t n) { monitor.log_step({.step = n, .shape = shape}); }, [] {});
  struct Plain {
    std::uint64_t step;
    double loss;
    Clock::time_point at;
  };
  std::deque<Plain> plain;
  std::mutex mutex;
  Times beside = timed(
      [&](std::uint64_t n) {
        std::lock_guard lock(mutex);
        plain.push_back({n, 2.5, Clock::now()});
      },
      [&] { plain.clear(); });
  std::printf("%-44s %8s %8s %8s   %s\n", "ns a call", "best", "p50", "p99.9", "target");
  print("empty loop (p50, p99.9: with two clock calls)", empty, "");
  print("log_step, five sinks and a run directory", logged, "best <= 150, p99.9 <= empty + 5000");
  print("log_step, the queue is full", full, "same");
  print("a mutex and a deque", beside, "");
  std::printf("steps dropped while somebody drained: %llu\n",
              static_cast<unsigned long long>(dropped));
  for (int threads : {1, 2}) {
    double best = 0;
    for (int i = 0; i < 5; ++i) best = std::max(best, tokens_per_s(threads));
    std::printf("count_tokens, %d thread%s: %.0f M/s, exact%s\n", threads, threads == 1 ? "" : "s",
                best / 1e6, threads == 2 ? " (target 20 M/s)" : "");
  }
  return 0;
}
