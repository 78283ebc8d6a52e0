// Sinks that are a text file with one line per step. A log of ours is continued, after half a line
// of a killed process is cut off. A file that another program wrote is renamed and kept. A file
// that was deleted or renamed while we write is created again.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "mfu/sink.h"

namespace mfu {

struct LineFile {
  std::string what;  // how messages call it, before the path: "the log"
  std::string path;
  std::string header{};  // the first line of a new file; empty if there is none
  std::string (*line)(const StepReport& report);
  // Whether `line`, or half of it, may have been written by this sink.
  bool (*ours)(std::string_view line, bool half);
  // The header of an earlier version (empty if there was none) and the function that makes its
  // lines. A file that begins with that header gets such lines.
  std::string older_header{};
  std::string (*older_line)(const StepReport& report) = nullptr;
};
std::unique_ptr<Sink> make_line_file(LineFile file);

}  // namespace mfu
