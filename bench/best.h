// A timer for benches of small calls.
#pragma once

#include <algorithm>
#include <chrono>

// Nanoseconds of a call in the best of many rounds. Other processes share the machine, so the best
// round is the least disturbed one.
template <typename Work>
double best_ns(int calls, const Work& work) {
  double best = 1e18;
  for (int round = 0; round < 50; ++round) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) work();
    std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count() / calls);
  }
  return best;
}
