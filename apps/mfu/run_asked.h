// What `mfu run` may ask of the command beyond counting: to end after so many steps, and to explain
// some of them.
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

  // What the observed processes are told (MFU_EXPLAIN); empty: nothing is asked.
  Result<std::string> text() const;
  Result<std::chrono::milliseconds> patience() const;
  bool explains() const { return !explain.empty(); }
  bool stops() const { return !steps.empty(); }
};

// "10s", "500ms", "2m"; a bare number is seconds. `what`: the option, for the message.
Result<std::chrono::milliseconds> parse_patience(const std::string& text, const std::string& what);

}  // namespace mfu::app
