// Two checks of `mfu doctor`: --selftest runs python/mfu/_selftest.py on this program, and
// --retired runs a command and reads the processor's FLOP counters.
#pragma once

#include "cli.h"

namespace mfu::app {

// Replaces this process by the self-test. Returns only if that fails.
Result<int> become_selftest(Context& context, const std::string& output);

// Runs the command and prints {"flop": N, "counted_fraction": X}. Fails if this machine has no such
// counters.
Result<int> count_retired(Context& context, const std::vector<std::string>& command);

}  // namespace mfu::app
