// The sinks that are a text file with a line a step: half a line of a killed process is cut off,
// and what stands there is gone on with.
#pragma once

#include <memory>
#include <string>

#include "mfu/sink.h"

namespace mfu {

struct LineFile {
  std::string what;  // "the log": for messages, before the path
  std::string path;
  std::string header{};  // the first line of a new file; empty: none
  std::string (*line)(const StepReport& report);
};
std::unique_ptr<Sink> make_line_file(LineFile file);

}  // namespace mfu
