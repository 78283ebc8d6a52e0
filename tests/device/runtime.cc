#include "runtime.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace late {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != 0 ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::uint64_t now_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

std::atomic<std::uint64_t> kernel_duration_ns{setting("LATE_KERNEL_US", 0) * 1000};
std::atomic<std::uint64_t> launched{0}, host_waits{0}, foreign_queries{0}, queries{0}, breaks{0};
std::atomic<bool> capturing{false}, stopped{false};
thread_local bool launches_here = false;

void wait_of_host() {
  host_waits.fetch_add(1);
  if (capturing.load()) breaks.fetch_add(1);
}

// One queue and the thread that empties it. It is never destroyed, because a process may end while
// work is waiting.
class Queue {
 public:
  Queue() {
    std::thread([this] { run(); }).detach();
  }

  void add(Work work) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return works_.size() < limit_ || stopped.load(); });
    works_.push_back(std::move(work));
    ++added_;
    more_.notify_one();
  }
  void drain() {
    std::unique_lock lock(mutex_);
    std::uint64_t upto = added_;
    done_.wait(lock, [&] { return finished_ >= upto || stopped.load(); });
  }
  bool is_idle() {
    std::lock_guard lock(mutex_);
    return finished_ == added_;
  }

 private:
  void run() {
    while (true) {
      Work work;
      {
        std::unique_lock lock(mutex_);
        more_.wait(lock, [this] { return !works_.empty(); });
        work = std::move(works_.front());
        works_.pop_front();
        room_.notify_one();
      }
      if (!stopped.load()) work();
      work = nullptr;
      std::lock_guard lock(mutex_);
      ++finished_;
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable more_, room_, done_;
  std::deque<Work> works_;
  std::uint64_t added_ = 0, finished_ = 0;
  const std::uint64_t limit_ = setting("LATE_QUEUE", 1024);
};

struct Devices {
  std::mutex mutex;
  std::array<std::vector<Queue*>, kMostDevices> queues;
};

Devices& devices() {
  static Devices* all = new Devices;
  return *all;
}

Queue& queue_of(StreamName where) {
  std::lock_guard lock(devices().mutex);
  auto& queues = devices().queues[static_cast<std::size_t>(where.device)];
  while (queues.size() <= static_cast<std::size_t>(where.stream)) queues.push_back(new Queue);
  return *queues[static_cast<std::size_t>(where.stream)];
}

}  // namespace

struct Mark::State {
  std::mutex mutex;
  std::condition_variable reached;
  std::uint64_t time_ns = 0;
};

std::shared_ptr<Mark::State> Mark::make() {
  return std::make_shared<State>();
}
bool Mark::is_reached() const {
  return time_ns() != 0;
}
std::uint64_t Mark::time_ns() const {
  std::lock_guard lock(state_->mutex);
  return state_->time_ns;
}
void Mark::wait() const {
  std::unique_lock lock(state_->mutex);
  state_->reached.wait(lock, [this] { return state_->time_ns != 0 || stopped.load(); });
}
void Mark::reach() {
  std::lock_guard lock(state_->mutex);
  state_->time_ns = now_ns();
  state_->reached.notify_all();
}

int device_count() {
  static const int kCount =
      static_cast<int>(std::min<std::uint64_t>(setting("LATE_DEVICES", 2), kMostDevices));
  return kCount;
}

std::int64_t new_stream(int device) {
  std::int64_t next = 1;
  {
    std::lock_guard lock(devices().mutex);
    next = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(devices().queues[static_cast<std::size_t>(device)].size()));
  }
  queue_of({device, next});
  return next;
}

void launch(StreamName where, Work work) {
  launches_here = true;
  queue_of(where).add(std::move(work));
}

void launch_kernel(StreamName where, Work work) {
  launched.fetch_add(1);
  launch(where, [work = std::move(work)] {
    std::uint64_t start = now_ns();
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "a kernel of the test device failed: %s\n", error.what());
      std::abort();
    }
    std::uint64_t least = kernel_duration_ns.load(), took = now_ns() - start;
    if (took < least) std::this_thread::sleep_for(std::chrono::nanoseconds(least - took));
  });
}

void launch_sleep(StreamName where, std::uint64_t duration_ns) {
  launched.fetch_add(1);
  launch(where,
         [duration_ns] { std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns)); });
}

void synchronize(StreamName where) {
  wait_of_host();
  queue_of(where).drain();
}

void synchronize_device(int device) {
  wait_of_host();
  std::vector<Queue*> queues;
  {
    std::lock_guard lock(devices().mutex);
    queues = devices().queues[static_cast<std::size_t>(device)];
  }
  for (Queue* each : queues) each->drain();
}

bool is_idle(StreamName where) {
  return queue_of(where).is_idle();
}

void set_kernel_ns(std::uint64_t duration_ns) {
  kernel_duration_ns.store(duration_ns);
}

Mark record(StreamName where) {
  Mark mark;
  launch(where, [mark]() mutable { mark.reach(); });
  return mark;
}

void wait_for(StreamName where, const Mark& mark) {
  launch(where, [mark] { mark.wait(); });
}

void note_query() {
  queries.fetch_add(1);
  if (!launches_here) foreign_queries.fetch_add(1);
  if (capturing.load()) breaks.fetch_add(1);
}

Counts counts() {
  return {launched.load(), host_waits.load(), foreign_queries.load(), queries.load()};
}

void set_capturing(bool now) {
  capturing.store(now);
}
bool is_capturing() {
  return capturing.load();
}
std::uint64_t capture_breaks() {
  return breaks.load();
}

void stop() {
  stopped.store(true);
}

}  // namespace late
