#include "base/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace mfu {

unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // This fails on machines with more processors than fit into the set.
  int count = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  if (count > 0) return static_cast<unsigned>(count);
  return std::max(1u, std::thread::hardware_concurrency());
}

void on_threads(unsigned threads, const std::function<void()>& work) {
  std::mutex mutex;
  std::exception_ptr thrown;  // the first one; it is passed on once every thread has ended
  auto guarded = [&] {
    try {
      work();
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(threads);
  try {
    for (unsigned i = 1; i < threads; ++i) others.emplace_back(guarded);
  } catch (const std::system_error&) {  // the system gives no more threads
  }
  guarded();
  for (std::thread& other : others) other.join();
  if (thrown) std::rethrow_exception(thrown);
}

void run_tasks(unsigned threads, const std::vector<std::function<void()>>& tasks) {
  std::atomic<std::size_t> next{0};
  on_threads(std::min(threads, static_cast<unsigned>(tasks.size())), [&] {
    for (std::size_t i = next++; i < tasks.size(); i = next++) tasks[i]();
  });
}

}  // namespace mfu
