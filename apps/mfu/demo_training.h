// A small training on made-up data, run under `mfu run --explain` as a user would.
#pragma once

#include <mfu/mfu.h>

#include <string>

namespace mfu::app {

struct DemoRun {
  std::string folder;    // the run directory
  std::string python;    // interpreter that has PyTorch
  bool changed = false;  // with what was advised
  bool shown = true;     // its summary goes to standard output
};

// Runs it and reads what it left. `not_found` where there is no PyTorch; the message says how to
// name one.
Result<RunRecord> run_training(const DemoRun& run);

}  // namespace mfu::app
