// Reading and explaining traces, as mfu explain, compare and demo all do it.
#pragma once

#include <mfu/mfu.h>

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli.h"

namespace mfu::app {

struct ExplainOptions {
  std::string window, device, peak, type, model, tokens;
  std::string phase = "train";
  std::uint64_t sequence = 2048;
  bool timeline = false;  // for reports that draw it

  void add_to(CLI::App& app);
  Result<ExplainReport> explain(Context& context, const std::vector<std::string>& paths) const;
  Result<AttributionOptions> attribution(Context& context) const;
};

}  // namespace mfu::app
