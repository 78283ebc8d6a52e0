// A small training on made-up data, run under `mfu run --explain` as a user would.
#pragma once

#include <mfu/mfu.h>

#include <string>

namespace mfu::app {

struct DemoRun {
  std::string folder;    // the run directory
  std::string python;    // interpreter that has PyTorch
  bool changed = false;  // whether the advice is followed
  bool shown = true;     // whether its summary goes to standard output
};

// Runs the training and reads its run directory. Fails with `not_found` if there is no PyTorch; the
// message says how to name an interpreter that has it.
Result<RunRecord> run_training(const DemoRun& run);

}  // namespace mfu::app
