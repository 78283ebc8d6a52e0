// Reading and explaining traces, as mfu explain, compare and demo all do it.
#pragma once

#include <mfu/mfu.h>

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli.h"
#include "engine.h"

namespace mfu::app {

struct Gathered {
  std::optional<PassingFolder> folder;  // that some of the parts are in
  Parts parts;
};

struct ExplainOptions {
  std::string window, device, peak, type, model, tokens;
  std::string phase = "train";
  std::uint64_t sequence = 2048;
  bool timeline = false;  // for reports that draw it
  std::string engine;     // where traces are read; empty: here
  std::string name;       // that a single trace goes by, in place of its path

  void add_to(CLI::App& app);
  Result<ExplainReport> explain(Context& context, const std::vector<std::string>& paths) const;
  // Reads traces and parts, and warns of what people should know of them.
  Result<Gathered> gather(Context& context, const std::vector<std::string>& paths,
                          const AttributionOptions& options) const;
  Result<AttributionOptions> attribution(Context& context) const;
};

}  // namespace mfu::app
