/* The monitor from C. Each step is one product of a matrix and a vector; the program gives its
 * FLOPs. */
#include <mfu/c.h>
#include <stdio.h>

enum { size = 256 };
static float weight[size][size], input[size], output[size];

int main(void) {
  mfu_options options = mfu_options_unknown();
  options.yaml = "monitoring: {mfu_calculation_mode: profiler}";
  options.peak_flop_per_s = 100e9;
  mfu_monitor* monitor = mfu_monitor_open(&options);
  if (monitor == NULL) {
    fprintf(stderr, "%s\n", mfu_error());
    return 1;
  }
  for (uint64_t number = 0; number < 100; ++number) {
    double loss = 0;
    for (int i = 0; i < size; ++i) {
      input[i] = (float)(i % 3);
      output[i] = 0;
    }
    for (int i = 0; i < size; ++i) {
      for (int j = 0; j < size; ++j) {
        weight[i][j] += 1e-3f;
        output[i] += weight[i][j] * input[j];
      }
      loss += output[i];
    }
    mfu_step step = mfu_step_unknown();
    step.step = number;
    step.loss = loss;
    step.sequences = step.tokens = 1;
    step.counted_flop_low = 2ull * size * size;
    mfu_monitor_log_step(monitor, &step);
  }
  mfu_monitor_count_tokens(monitor, 100);
  if (!mfu_monitor_flush(monitor, 60)) return 1;
  mfu_report report;
  if (!mfu_monitor_last_report(monitor, &report)) return 1;
  printf("mfu %s: step %llu, MFU %.4f (%s), %.0f steps/s\n", mfu_version(),
         (unsigned long long)report.step, report.mfu, report.source, 1 / report.step_time_s);
  mfu_monitor_close(monitor);
  return 0;
}
