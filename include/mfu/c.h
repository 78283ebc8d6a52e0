// The monitor for C and for other languages: the calls of mfu/monitor.h, plain types, no exception,
// nothing printed. Compiles as C99 and as C++.
//
//   mfu_monitor *monitor = mfu_monitor_open_yaml("train.yaml");
//   if (monitor == NULL) fprintf(stderr, "%s\n", mfu_error());
//   mfu_step step = mfu_step_unknown();
//   step.step = 1, step.loss = 2.3, step.sequences = 8, step.tokens = 8 * 4096;
//   mfu_monitor_log_step(monitor, &step);
//   mfu_monitor_close(monitor);
#pragma once

#include <stddef.h>
#include <stdint.h>

// NOLINTBEGIN: C names, C types
#ifdef __cplusplus
extern "C" {
#endif

typedef struct mfu_monitor mfu_monitor;

// The version of the library, "0.2.0".
const char* mfu_version(void);
// Why the last call of this thread failed; "" where none did. Valid until its next call.
const char* mfu_error(void);

// Every number that is not known is NaN, every count that is not known is 0.
typedef struct mfu_options {
  const char* yaml;        // settings as text; NULL: none
  const char* model;       // config.json or a folder that holds one; NULL: none
  const char* output_dir;  // training_log.json goes there; NULL: no log
  const char* run_dir;     // where steps survive kill -9; NULL: mfu-run in output_dir; "": nowhere
  double peak_flop_per_s;  // of one device
  uint64_t devices;
} mfu_options;
mfu_options mfu_options_unknown(void);

// NULL, and mfu_error() says why, where settings are wrong. What is merely missing (a model that
// cannot be read, a directory that cannot be written) is a warning.
mfu_monitor* mfu_monitor_open(const mfu_options* options);
mfu_monitor* mfu_monitor_open_yaml(const char* path);
// Everything to the sinks; NULL is allowed.
void mfu_monitor_close(mfu_monitor* monitor);

typedef struct mfu_step {
  uint64_t step;
  double epoch, loss, grad_norm, learning_rate;
  double duration_s;                             // NaN: since the last step was logged
  uint64_t samples;                              // 0: sequences
  uint64_t sequences, tokens;                    // of this rank
  uint64_t squares;                              // sum of squared lengths; 0: the lengths are equal
  uint64_t padded_length;                        // rows were padded to this
  uint64_t counted_flop_low, counted_flop_high;  // both 0: nobody counted
} mfu_step;
mfu_step mfu_step_unknown(void);

// About the time of a clock call; any thread; never blocks. A full queue drops and counts.
void mfu_monitor_log_step(mfu_monitor* monitor, const mfu_step* step);
// Tokens that generation made; any thread.
void mfu_monitor_count_tokens(mfu_monitor* monitor, uint64_t tokens);
void mfu_monitor_count_prefill(mfu_monitor* monitor, uint64_t prompts, uint64_t tokens,
                               uint64_t squares);
void mfu_monitor_count_decode(mfu_monitor* monitor, uint64_t sequences, uint64_t context);
// "warmup", "main" or "finetune"; 0, and mfu_error() says why, where it is none of them.
int mfu_monitor_set_phase(mfu_monitor* monitor, const char* phase);
// 1 where this step's FLOPs are worth counting.
int mfu_monitor_measurement_due(mfu_monitor* monitor, uint64_t step);

// Waits until what was logged has been offered to every sink: 1, or 0 where it took longer.
int mfu_monitor_flush(mfu_monitor* monitor, double patience_s);

typedef struct mfu_report {
  uint64_t step;
  double mfu;  // 0..1
  double step_time_s, tokens_per_s, samples_per_s;
  double generation_tokens_per_s, generation_mfu;
  const char* source;  // "estimated", "counted", "calibrated", "hardware"; "" where there is none
} mfu_report;
// The newest report; 0 where there is none yet.
int mfu_monitor_last_report(mfu_monitor* monitor, mfu_report* report);
// The newest report as a line of JSON (docs/formats/training_log.md); NULL where there is none yet.
// Valid until this thread's next call.
const char* mfu_monitor_last_json(mfu_monitor* monitor);

typedef struct mfu_status {
  uint64_t logged, dropped, reported, unsent;
} mfu_status;
mfu_status mfu_monitor_status(mfu_monitor* monitor);
// The warning of that number, in the order they came; NULL: there are no more. Valid until this
// thread's next call.
const char* mfu_monitor_warning(mfu_monitor* monitor, size_t number);

#ifdef __cplusplus
}
#endif
// NOLINTEND
