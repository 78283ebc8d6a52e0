// The sinks that are a text file with a line a step. A log of ours is gone on with, half a line of
// a killed process cut off; a file that somebody else wrote is set aside under another name. One
// that was deleted or renamed meanwhile is made again.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "mfu/sink.h"

namespace mfu {

struct LineFile {
  std::string what;  // "the log": for messages, before the path
  std::string path;
  std::string header{};  // the first line of a new file; empty: none
  std::string (*line)(const StepReport& report);
  // Whether a line, or the `half` of one, is one that `line` may have written.
  bool (*ours)(std::string_view line, bool half);
};
std::unique_ptr<Sink> make_line_file(LineFile file);

}  // namespace mfu
