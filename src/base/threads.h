// Divides work among a few threads. The work must be large enough to be worth a thread.
//
//   run_tasks(usable_cores(), {[&] { a = first(); }, [&] { b = second(); }});
#pragma once

#include <functional>
#include <vector>

namespace mfu {

// How many cores this process may run on. Respects `taskset` and the share that a scheduler gives.
unsigned usable_cores();

// Runs `work` on so many threads at once, including the caller's, and waits for all. The system may
// give fewer threads, so one thread must be able to do all the work alone.
void on_threads(unsigned threads, const std::function<void()>& work);

// Runs each task once. The next free thread takes the next task, in order.
void run_tasks(unsigned threads, const std::vector<std::function<void()>>& tasks);

}  // namespace mfu
