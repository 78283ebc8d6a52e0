// What `mfu run` can ask of the command besides counting: to stop after some steps, and to profile
// some steps so that they can be explained.
#pragma once

#include <mfu/result.h>

#include <CLI/App.hpp>
#include <chrono>
#include <optional>
#include <string>

namespace mfu::app {

struct RunAsked {
  std::string steps, grace, explain, after, ranks;
  bool stacks = false;

  void add_to(CLI::App& app);

  // The value of MFU_EXPLAIN for the observed processes. Empty if nothing is asked of them.
  Result<std::string> text() const;
  Result<std::chrono::milliseconds> patience() const;
  bool explains() const { return !explain.empty(); }
  bool stops() const { return !steps.empty(); }
};

// Reads "10s", "500ms" or "2m". A bare number is seconds. `what` is the option, for the message.
Result<std::chrono::milliseconds> parse_patience(const std::string& text, const std::string& what);

}  // namespace mfu::app
