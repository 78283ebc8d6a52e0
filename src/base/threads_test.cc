#include "base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <new>
#include <thread>

namespace mfu {
namespace {

TEST(Threads, each_task_runs_once_on_any_number_of_threads) {
  for (unsigned threads : {0u, 1u, 2u, 7u}) {
    std::array<std::atomic<int>, 5> ran{};
    std::vector<std::function<void()>> tasks;
    for (std::atomic<int>& each : ran) tasks.emplace_back([&each] { ++each; });
    run_tasks(threads, tasks);
    for (std::atomic<int>& each : ran) EXPECT_EQ(each, 1) << threads;
  }
  run_tasks(3, {});
}

TEST(Threads, what_a_task_throws_reaches_the_caller_once_all_have_ended) {
  for (unsigned threads : {1u, 3u}) {
    std::atomic<int> ran{0};
    std::vector<std::function<void()>> tasks;
    for (int i = 0; i < 3; ++i) {
      tasks.emplace_back([&ran] {
        ++ran;
        throw std::bad_alloc();
      });
    }
    EXPECT_THROW(run_tasks(threads, tasks), std::bad_alloc);
    EXPECT_GE(ran, 1);
  }
}

TEST(Threads, a_process_that_may_use_one_core_has_one) {
  std::thread pinned([] {
    int here = ::sched_getcpu();
    ASSERT_GE(here, 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(here), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_cores(), 1u);
  });
  pinned.join();
  EXPECT_GE(usable_cores(), 1u);
}

}  // namespace
}  // namespace mfu
