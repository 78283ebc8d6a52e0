// A small real training run on this machine's processor, profiled.
#pragma once

#include <mfu/result.h>

#include <string>

namespace mfu::app {

// Runs it with that interpreter's PyTorch and gives the path of the trace, in a folder of its own.
// `not_found` where there is no PyTorch; the message says how to name one.
Result<std::string> profile_training(const std::string& python);
// Removes the trace and its folder.
void remove_profile(const std::string& path);

}  // namespace mfu::app
