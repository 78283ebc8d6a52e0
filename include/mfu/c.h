// The monitor for C and other languages: the calls of mfu/monitor.h with plain types. They throw no
// exceptions and print nothing. The header compiles as C99 and as C++.
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
// Why the last call of this thread failed, or "". Valid until the thread's next call.
const char* mfu_error(void);

// An unknown number is NaN, and an unknown count is 0. mfu_options_unknown() returns these values.
typedef struct mfu_options {
  const char* yaml;        // settings as text, or NULL
  const char* model;       // config.json or a folder that has one, or NULL
  const char* output_dir;  // folder for training_log.json; NULL for no log
  const char* run_dir;     // where steps survive kill -9; NULL: mfu-run in output_dir; "": nowhere
  double peak_flop_per_s;  // of one device
  uint64_t devices;
} mfu_options;
mfu_options mfu_options_unknown(void);

// Returns NULL if settings are wrong; mfu_error() says why. If something is only missing (a model
// that cannot be read, a directory that cannot be written), there is a warning.
mfu_monitor* mfu_monitor_open(const mfu_options* options);
mfu_monitor* mfu_monitor_open_yaml(const char* path);
// Sends everything to the sinks and frees the monitor. NULL is allowed.
void mfu_monitor_close(mfu_monitor* monitor);

typedef struct mfu_step {
  uint64_t step;
  double epoch, loss, grad_norm, learning_rate;
  double duration_s;                             // NaN: the time since the last logged step
  uint64_t samples;                              // 0: the same as sequences
  uint64_t sequences, tokens;                    // of this rank
  uint64_t squares;                              // sum of squared lengths; 0: lengths are equal
  uint64_t padded_length;                        // length to which rows were padded; 0: none
  uint64_t counted_flop_low, counted_flop_high;  // both 0 if nobody counted
} mfu_step;
mfu_step mfu_step_unknown(void);

// Logs a step. It takes about as long as reading the clock and never blocks; any thread may call
// it. If the queue is full, the step is dropped and counted as dropped.
void mfu_monitor_log_step(mfu_monitor* monitor, const mfu_step* step);
// Count generated tokens, prompts and decode steps. Any thread may call these.
void mfu_monitor_count_tokens(mfu_monitor* monitor, uint64_t tokens);
void mfu_monitor_count_prefill(mfu_monitor* monitor, uint64_t prompts, uint64_t tokens,
                               uint64_t squares);
void mfu_monitor_count_decode(mfu_monitor* monitor, uint64_t sequences, uint64_t context);
// `phase` is "warmup", "main" or "finetune". Returns 0 for any other word; mfu_error() says why.
int mfu_monitor_set_phase(mfu_monitor* monitor, const char* phase);
// Returns 1 if the FLOPs of this step should be counted.
int mfu_monitor_measurement_due(mfu_monitor* monitor, uint64_t step);

// Waits until every sink has been offered what was logged. Returns 0 if that took too long, else 1.
int mfu_monitor_flush(mfu_monitor* monitor, double patience_s);

typedef struct mfu_report {
  uint64_t step;
  double mfu;  // 0..1
  double step_time_s, tokens_per_s, samples_per_s;
  double generation_tokens_per_s, generation_mfu;
  const char* source;  // "estimated", "counted", "calibrated", "hardware", or ""
} mfu_report;
// Writes the newest report. Returns 0 if there is none yet.
int mfu_monitor_last_report(mfu_monitor* monitor, mfu_report* report);
// The newest report as a line of JSON (docs/formats/training_log.md), or NULL if there is none yet.
// Valid until this thread's next call.
const char* mfu_monitor_last_json(mfu_monitor* monitor);

typedef struct mfu_status {
  uint64_t logged, dropped, reported, unsent;
} mfu_status;
mfu_status mfu_monitor_status(mfu_monitor* monitor);
// The warning with that number, counted from 0, or NULL if there are no more. Valid until this
// thread's next call.
const char* mfu_monitor_warning(mfu_monitor* monitor, size_t number);

#ifdef __cplusplus
}
#endif
// NOLINTEND
