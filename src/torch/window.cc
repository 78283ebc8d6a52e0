#include "torch/window.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "record/recorder.h"
#include "record/region_file.h"
#include "torch/boundaries.h"
#include "torch/count.h"
#include "torch/host_time.h"
#include "torch/profile.h"
#include "torch/thread.h"
#include "torch/window_file.h"

namespace mfu::observer {
namespace {

// StepRecord::profiled.
constexpr std::uint8_t kInWindow = 1, kBesideWindow = 2;

constexpr std::uint64_t kFirstRanks = 8;    // profiled if nobody names others
constexpr std::uint64_t kEarliestStep = 3;  // steps that end before a window begins by itself
constexpr std::uint64_t kLatestStep = 12;   // then it begins, even if steps have not become alike
constexpr std::uint64_t kMostSteps = 255;   // in one window
// if no step ends for so long, the window is given up
constexpr std::uint64_t kLostNs = 30'000'000'000;
// how long the end of the process waits for the trace
constexpr auto kPatience = std::chrono::seconds(20);

struct Asked {
  std::uint64_t steps = 0;             // 0: no window
  std::optional<std::uint64_t> after;  // empty: when steps take about the same time
  std::vector<std::int32_t> ranks;     // empty: the first few
  bool stacks = false;
  std::uint64_t stop = 0;  // 0: the program runs to its end
};

// paying: in the step after a window, which the end of the profiler slows.
enum class State : std::uint8_t { idle, waiting, open, paying };

struct Window {
  std::mutex mutex;
  Asked asked, at_launch;
  std::uint64_t steps_before = 0;  // steps before the window was asked for, or before a fork
  std::string directory;
  State state = State::idle;
  std::uint64_t number = 0;  // how many windows were begun
  std::uint64_t start_at = 0;
  std::uint64_t last_ns = 0, last_duration_ns = 0;
  // State of the open window.
  pthread_t thread{};
  bool discarding = false;
  bool replaced = false;  // another thread began a profiler, and torch gave ours up for it
  std::uint64_t begun_ns = 0;
  WindowFacts facts;
  std::vector<Recorder::Total> before;
  HostUse use_before;
  std::optional<ProfiledStep> mark;
  // State of the thread that writes.
  std::mutex writing_mutex;
  std::condition_variable written;
  int writing = 0;
};

Window& window() {
  static Window* instance = new Window;
  return *instance;
}

constinit std::atomic<bool> concerned{false};  // something is asked for, so steps must be looked at
constinit std::atomic<bool> stopping{false};
constinit std::atomic<bool> has_other_profiler{false};
constinit std::atomic<std::uint64_t> request_seen{0};
constinit std::atomic<void (*)(int)> window_seen{nullptr};

void tell(int what) {
  if (auto* seen = window_seen.load()) seen(what);
}

std::int32_t rank_of() {
  const Region* region = Recorder::process().region();
  return region == nullptr ? -1 : region->header.rank.load();
}

void say(const std::string& text) {
  Recorder::process().fact("explain", text);
}

// A thread that ends takes its profiler with it, so the profiler must stop first.
struct ThreadLeaves {
  bool opened = false;
  ~ThreadLeaves() {
    if (opened) end_window(false);
  }
};
thread_local ThreadLeaves thread_end;

bool is_asked_of_this_rank(const Asked& asked) {
  std::int32_t rank = std::max(rank_of(), 0);
  if (asked.ranks.empty()) return static_cast<std::uint64_t>(rank) < kFirstRanks;
  return std::find(asked.ranks.begin(), asked.ranks.end(), rank) != asked.ranks.end();
}

void begin_marked_step(Window& w) {
  w.before = Recorder::process().totals();
  w.use_before = host_use();
  w.facts.start_ns = now_ns();
  Recorder::process().set_profiled(kInWindow);
  w.mark.emplace(0);
}

void open_window(Window& w, std::uint64_t steps) {
  w.state = State::idle;
  if (has_other_profiler.load() || profiler_runs()) {
    say("own_profiler");
    return;
  }
  const Region* region = Recorder::process().region();
  if (region == nullptr || w.directory.empty()) return;
  Recorder::process().set_profiled(kBesideWindow);
  std::int16_t device = this_thread.device;
  std::string problem = begin_profile({.stacks = w.asked.stacks,
                                       .device = device,
                                       .rank = region->header.rank.load(),
                                       .world_size = region->header.world_size.load()});
  if (!problem.empty()) {
    w.state = State::paying;
    say("failed: " + problem);
    return;
  }
  tell(1);
  w.thread = pthread_self();
  thread_end.opened = true;
  w.state = State::open;
  w.replaced = false;
  w.begun_ns = now_ns();
  w.facts = {.number = ++w.number, .rank = region->header.rank.load(), .device = device >= 256};
  w.facts.wanted_steps = w.asked.steps;
  w.facts.first_step = steps;
  say("began at step " + std::to_string(steps));
  // The first records of a session on a GPU can be wrong (pytorch #192021), so they are discarded.
  w.discarding = device >= 256;
  if (w.discarding) {
    ++w.facts.first_step;
  } else {
    begin_marked_step(w);
  }
}

// Runs on a thread of its own, so that nothing waits for a slow disk.
void write_window(const WriteTrace& write, const std::string& directory, const WindowFacts& facts) {
  std::string problem = write_window_files(write, directory, facts);
  if (!problem.empty()) say("failed: " + problem);
  Window& w = window();
  std::lock_guard lock(w.writing_mutex);
  --w.writing;
  w.written.notify_all();
}

void count_steps(Window& w) {
  w.facts.end_ns = now_ns();
  w.facts.operators = difference(Recorder::process().totals(), w.before);
}

// A program may end in the middle of a step. Only the steps before it were counted then.
void finish_count(Window& w) {
  w.facts.use = host_use() - w.use_before;
  w.before.clear();
}

// Call it on the thread that opened the window. `keep`: the recorded steps are worth writing.
void close_window(Window& w, bool keep) {
  w.mark.reset();
  tell(2);
  WriteTrace write;
  if (w.replaced) {
    drop_profile();  // ending ours would end the other one
  } else {
    write = end_profile();
  }
  tell(0);
  thread_end.opened = false;
  w.state = State::paying;
  Recorder::process().set_profiled(kBesideWindow);
  if (!keep || !write) return;
  {
    std::lock_guard lock(w.writing_mutex);
    ++w.writing;
  }
  // The writing thread must not take the program's signals.
  sigset_t all, mine;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &mine);
  try {
    std::thread(write_window, write, w.directory, w.facts).detach();
  } catch (...) {
    std::lock_guard lock(w.writing_mutex);
    --w.writing;
    say("failed: no thread could be started to write the trace");
  }
  pthread_sigmask(SIG_SETMASK, &mine, nullptr);
}

void step_of_window(Window& w) {
  if (pthread_equal(w.thread, pthread_self()) == 0) return;  // another loop is being profiled
  if (w.discarding) {
    w.discarding = false;
    begin_marked_step(w);
    return;
  }
  w.mark.reset();
  ++w.facts.steps;
  count_steps(w);
  if (w.facts.steps < w.facts.wanted_steps) {
    w.mark.emplace(w.facts.steps);
    return;
  }
  finish_count(w);
  close_window(w, true);
}

bool is_time(Window& w, std::uint64_t steps) {
  std::uint64_t now = now_ns(), duration = w.last_ns == 0 ? 0 : now - w.last_ns;
  std::uint64_t before = w.last_duration_ns;
  w.last_ns = now;
  w.last_duration_ns = duration;
  if (w.asked.after) return steps >= *w.asked.after;
  if (steps < kEarliestStep) return false;
  const Region* region = Recorder::process().region();
  bool several = region != nullptr && region->header.world_size.load() > 1;
  // Ranks begin at the same step, so that their collectives can be matched.
  if (several || steps >= kLatestStep) return true;
  return before != 0 && 2 * duration < 3 * before && 2 * before < 3 * duration;
}

// `word` is number << 32 | RequestKind << 24 | the step to begin at << 8 | how many steps.
void take_request(Window& w, std::uint64_t word, std::uint64_t steps) {
  auto kind = static_cast<RequestKind>(word >> 24 & 0xFF);
  Recorder::process().answer(word);
  if (kind == RequestKind::stop) w.asked.stop = steps;
  if (kind != RequestKind::profile || w.state == State::open) return;
  w.asked.steps = std::clamp<std::uint64_t>(word & 0xFF, 1, kMostSteps);
  std::uint64_t ahead = ((word >> 8) - steps) & 0xFFFF;
  w.asked.after = ahead < 0x8000 ? steps + ahead : steps;
  w.state = State::waiting;
  if (w.number == 0) w.number = 1;  // the first window's file names belong to `mfu run --explain`
}

void stop_here(std::uint64_t steps) {
  if (stopping.exchange(true)) return;
  Recorder::process().fact("stopped", std::to_string(steps));
  end_window(false);
  kill(getpid(), SIGTERM);
}

std::vector<std::int32_t> parse_ranks(const std::string& text) {
  std::vector<std::int32_t> ranks;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::size_t dash = part.find('-');
    // NOLINTBEGIN(bugprone-unchecked-string-to-number-conversion): the launcher has checked it
    int from = std::atoi(part.c_str());
    int to = dash == std::string::npos ? from : std::atoi(part.c_str() + dash + 1);
    // NOLINTEND(bugprone-unchecked-string-to-number-conversion)
    for (int rank = from; rank <= to && ranks.size() < 65536; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

void ask_window(const std::string& directory, const std::string& asked) noexcept {
  Window& w = window();
  std::lock_guard lock(w.mutex);
  w.directory = directory;
  w.asked = {};
  w.steps_before = observer::steps();
  std::stringstream words(asked);
  for (std::string word; words >> word;) {
    std::size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    std::uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (key == "steps") w.asked.steps = std::min(number, kMostSteps);
    if (key == "after") w.asked.after = number;
    if (key == "ranks") w.asked.ranks = parse_ranks(value);
    if (key == "stacks") w.asked.stacks = number != 0;
    if (key == "stop") w.asked.stop = number;
  }
  w.at_launch = w.asked;
  if (w.asked.steps != 0) {
    w.state = State::waiting;
    // Kineto writes two lines about itself to the program's standard error. This is set while torch
    // is being imported, when hardly any other thread reads the environment.
    setenv("KINETO_LOG_LEVEL", "99", 0);
  }
  concerned.store(w.asked.steps != 0 || w.asked.stop != 0);
}

void step_ended(std::uint64_t steps) noexcept {
  const Region* region = Recorder::process().region();
  std::uint64_t word = region == nullptr ? 0 : region->header.request.load();
  bool requested = word != request_seen.load(std::memory_order_relaxed);
  if (!requested && !concerned.load(std::memory_order_relaxed)) return;
  bool stop = false;
  {
    Window& w = window();
    std::unique_lock lock(w.mutex, std::try_to_lock);
    if (!lock.owns_lock()) return;  // two loops end a step at once; one of them is enough
    steps -= w.steps_before;
    if (requested) {
      request_seen.store(word);
      concerned.store(true);
      take_request(w, word, steps);
    }
    if (w.state == State::paying) {
      Recorder::process().set_profiled(0);
      w.state = State::idle;
    }
    if (w.state == State::open) step_of_window(w);
    if (w.state == State::waiting && is_time(w, steps)) {
      if (is_asked_of_this_rank(w.asked)) {
        open_window(w, steps);
      } else {
        w.state = State::idle;
      }
    }
    stop = w.asked.stop != 0 && steps >= w.asked.stop;
    bool more = w.state != State::idle || (w.asked.stop != 0 && !stop);
    if (!more) concerned.store(false);
  }
  if (stop) stop_here(steps);
}

void pass_ended() noexcept {
  if (!concerned.load(std::memory_order_relaxed)) return;
  Window& w = window();
  std::unique_lock lock(w.mutex, std::try_to_lock);
  if (!lock.owns_lock() || w.state != State::open) return;
  if (pthread_equal(w.thread, pthread_self()) == 0) return;
  if (now_ns() - w.begun_ns < kLostNs * (1 + w.facts.steps)) return;
  finish_count(w);
  close_window(w, false);
  say("no step came to an end in " + std::to_string(kLostNs / 1'000'000'000) + " s");
}

void other_profiler() noexcept {
  has_other_profiler.store(true);
  Window& w = window();
  std::lock_guard lock(w.mutex);  // waits for a window that is beginning or ending
  if (w.state != State::open || w.replaced) return;
  if (pthread_equal(w.thread, pthread_self()) != 0) {
    close_window(w, false);
  } else {
    // Only the thread that began a session can end it. torch drops it when a new one begins.
    w.replaced = true;
  }
  say("own_profiler");
}

void end_window(bool goodbye) noexcept {
  Window& w = window();
  {
    std::unique_lock lock(w.mutex, std::try_to_lock);
    if (lock.owns_lock() && w.state == State::open &&
        pthread_equal(w.thread, pthread_self()) != 0) {
      bool keep = w.facts.steps > 0;
      finish_count(w);
      close_window(w, keep);
      if (!keep) say("ended before its first step did");
    }
  }
  if (!goodbye) return;
  std::unique_lock lock(w.writing_mutex);
  w.written.wait_for(lock, kPatience, [&] { return w.writing == 0; });
}

bool is_stopping() noexcept {
  return stopping.load(std::memory_order_relaxed);
}

void set_window_seen(void (*seen)(int)) noexcept {
  window_seen.store(seen);
}

void forget_window() noexcept {
  Window& w = window();
  bool was_open = w.state == State::open;
  if (was_open && pthread_equal(w.thread, pthread_self()) != 0) {
    thread_end.opened = false;
    drop_profile();
  }
  // The child must not use locks that another thread of the parent held. The mark is not ended,
  // because it was the parent's.
  new (&w.mutex) std::mutex;
  new (&w.writing_mutex) std::mutex;
  new (&w.written) std::condition_variable;
  new (&w.mark) std::optional<ProfiledStep>;
  w.writing = 0;
  w.number = 0;
  w.last_ns = w.last_duration_ns = 0;
  w.asked = w.at_launch;
  w.steps_before = observer::steps();
  w.state = w.asked.steps != 0 ? State::waiting : State::idle;
  concerned.store(w.asked.steps != 0 || w.asked.stop != 0);
  stopping.store(false);
  Recorder::process().set_profiled(0);
}

}  // namespace mfu::observer
