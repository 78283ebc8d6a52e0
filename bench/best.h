// How the benches of small calls take their time.
#pragma once

#include <algorithm>
#include <chrono>

// Best of many rounds, nanoseconds a call: the machine is shared.
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
