// Times counting a model: the FLOPs of a training step and the parameters of a 405B model that is
// given by its shape.
//   build/release/bench/need_bench
#include <mfu/mfu.h>

#include <cstdio>
#include <vector>

#include "best.h"

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
