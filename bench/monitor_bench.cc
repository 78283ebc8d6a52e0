// Measures what the monitor costs a loop: log_step with sinks on, and its slowest thousandth next
// to that of an empty loop in the same run, also while a disk stalls; and count_tokens on two
// threads.
//   build/release/bench/monitor_bench [FOLDER]
#include <fcntl.h>
#include <mfu/mfu.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
  double best_ns = 1e18;        // best round, for one call
  std::vector<double> each_ns;  // time of every call
  // times of an empty loop between the rounds, to see what the shared machine adds
  std::vector<double> empty_ns;
};

template <typename Step>
void time_each(std::vector<double>& to, std::uint64_t& number, const Step& step) {
  for (int i = 0; i < kSteps; ++i) {
    Clock::time_point one = Clock::now();
    step(number++);
    to.push_back(since_ns(one));
  }
}

// Each round fits into the queue. `between` drains it and is not timed.
template <typename Step, typename Between>
Times timed(const Step& step, const Between& between) {
  Times times;
  std::uint64_t number = 0, nothing = 0;
  volatile std::uint64_t sink = 0;
  for (int round = 0; round < kRounds; ++round) {
    Clock::time_point start = Clock::now();
    for (int i = 0; i < kSteps; ++i) step(number++);
    times.best_ns = std::min(times.best_ns, since_ns(start) / kSteps);
    between();
    time_each(times.each_ns, number, step);
    between();
    time_each(times.empty_ns, nothing, [&](std::uint64_t n) { sink = n; });
  }
  std::sort(times.each_ns.begin(), times.each_ns.end());
  std::sort(times.empty_ns.begin(), times.empty_ns.end());
  return times;
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void print(const char* what, const Times& times, const char* target) {
  std::printf("%-44s %8.1f %8.0f %8.0f %14.0f   %s\n", what, times.best_ns,
              quantile(times.each_ns, 0.5), quantile(times.each_ns, 0.999),
              quantile(times.empty_ns, 0.999), target);
}

mfu::MonitorOptions options_in(const std::string& folder) {
  mfu::MonitorOptions options;
  options.config.mode = mfu::EstimateMode{};
  options.config.output_dir = folder;  // this also makes a run directory
  options.config.csv = folder + "/steps.csv";
  options.config.tensorboard = folder + "/board";
  options.config.prometheus = folder + "/mfu.prom";
  options.model = *mfu::model_of_shape({.layers = 32, .hidden = 4096, .heads = 32, .vocab = 32000});
  options.peak = mfu::FlopRate{989.4e12};
  return options;
}

// A process that opens the pipe and never reads it, because it is stopped: the writer then hangs as
// it does when a disk stalls.
pid_t stopped_reader(const std::string& pipe) {
  ::mkfifo(pipe.c_str(), 0600);
  pid_t child = ::fork();
  if (child != 0) return child;
  int in = ::open(pipe.c_str(), O_RDONLY);
  ::raise(SIGSTOP);
  char bytes[65536];
  while (::read(in, bytes, sizeof bytes) > 0) continue;
  ::_exit(0);
}

// Times log_step while the sink's writer hangs in a pipe that nobody reads.
Times while_a_pipe_stalls(const std::string& folder, std::uint64_t& dropped) {
  std::string pipe = folder + "/stalled.jsonl";
  ::unlink(pipe.c_str());
  mfu::MonitorOptions options = options_in(folder + "/stalled");
  options.config.jsonl = pipe;
  pid_t reader = stopped_reader(pipe);
  int both = ::open(pipe.c_str(), O_RDWR);  // so that opening to write does not wait for the reader
  std::unique_ptr<mfu::Monitor> monitor = std::move(mfu::Monitor::open(std::move(options))).value();
  Times times = timed(
      [&](std::uint64_t n) {
        monitor->log_step({.step = n, .loss = 2.5, .shape = mfu::StepShape::of(8, 4096)});
      },
      [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  dropped = monitor->status().dropped;
  ::close(both);
  ::kill(reader, SIGCONT);
  monitor.reset();
  ::waitpid(reader, nullptr, 0);
  ::unlink(pipe.c_str());
  return times;
}

// Times log_step while the disk is full.
Times while_the_disk_is_full(const std::string& folder) {
  mfu::MonitorOptions options = options_in(folder + "/full");
  options.config.jsonl = "/dev/full";
  auto opened = mfu::Monitor::open(std::move(options));
  return timed(
      [&](std::uint64_t n) {
        (*opened)->log_step({.step = n, .loss = 2.5, .shape = mfu::StepShape::of(8, 4096)});
      },
      [&] { (*opened)->flush(std::chrono::seconds(60)); });
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
  // The loop is faster than the drain, so the queue is full, as it is when a disk stalls.
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
  std::uint64_t stalled_dropped = 0;
  Times stalled = while_a_pipe_stalls(folder, stalled_dropped);
  Times disk_full = while_the_disk_is_full(folder);
  std::printf("%-44s %8s %8s %8s %14s   %s\n", "ns a call", "best", "p50", "p99.9", "empty p99.9",
              "target");
  print("log_step, five sinks and a run directory", logged, "best <= 150, p99.9 <= empty + 5000");
  print("log_step, the queue is full", full, "the same");
  print("log_step, a sink's pipe is not read", stalled, "the same");
  print("log_step, a sink's disk is full", disk_full, "the same");
  print("a mutex and a deque", beside, "");
  std::printf("steps dropped behind the pipe, and counted: %llu\n",
              static_cast<unsigned long long>(stalled_dropped));
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
