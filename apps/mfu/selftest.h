// mfu doctor --selftest: python/mfu/_selftest.py with this program as its subject, and what the
// processor's counters saw of a command.
#pragma once

#include "cli.h"

namespace mfu::app {

// Becomes the test; returns only where it cannot.
Result<int> become_selftest(Context& context, const std::string& output);

// Runs the command and prints {"flop": N, "counted_fraction": X}; fails where this machine has no
// such counters.
Result<int> count_retired(Context& context, const std::vector<std::string>& command);

}  // namespace mfu::app
