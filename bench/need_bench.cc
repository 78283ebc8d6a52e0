// What counting a model costs: one step of a 405B model by its shape, and reading and counting a
// config.
//   build/release/bench/need_bench
#include <mfu/mfu.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

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

}  // namespace

int main() {
  auto model = mfu::model_of_shape({.layers = 126,
                                    .hidden = 16384,
                                    .heads = 128,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .ffn = 53248,
                                    .vocab = 128256});
  if (!model.has_value()) return 1;
  mfu::Workload work{.phase = mfu::Phase::train, .batch = 8, .sequence = 8192};
  volatile double sink = 0;
  double step =
      best_ns(2000, [&] { sink = mfu::flop_per_step(*model, work)->model_flop.to_double(); });
  double parameters =
      best_ns(2000, [&] { sink = static_cast<double>(mfu::count_parameters(*model).total); });
  std::printf("%-34s %10s %10s\n", "405B dense", "ns", "target");
  std::printf("%-34s %10.0f %10s\n", "flop_per_step, train", step, "2000");
  std::printf("%-34s %10.0f %10s\n", "count_parameters", parameters, "-");
  return 0;
}
