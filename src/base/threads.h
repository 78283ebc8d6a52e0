// Work shared by a few threads, for what is large enough to be worth one.
//
//   run_tasks(usable_cores(), {[&] { a = first(); }, [&] { b = second(); }});
#pragma once

#include <functional>
#include <vector>

namespace mfu {

// How many cores this process may run on: `taskset` and a scheduler's share are kept.
unsigned usable_cores();

// Runs `work` on so many threads at once, the caller's among them, and waits for all. Where the
// system gives fewer threads, on those: the work must be such that one can do it alone.
void on_threads(unsigned threads, const std::function<void()>& work);

// Runs each task once; they are taken in order, by whichever thread is free.
void run_tasks(unsigned threads, const std::vector<std::function<void()>>& tasks);

}  // namespace mfu
