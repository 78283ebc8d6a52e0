// Reads and explains traces, for mfu explain, compare and demo.
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
  std::optional<PassingFolder> folder;  // some of the parts are in it
  Parts parts;
};

struct ExplainOptions {
  std::string window, device, peak, type, model, tokens;
  std::string phase = "train";
  std::uint64_t sequence = 2048;
  bool timeline = false;  // needed by reports that draw it
  std::string engine;     // where traces are read; empty: on this machine
  std::string name;       // name of a single trace in reports, instead of its path

  void add_to(CLI::App& app);
  Result<ExplainReport> explain(Context& context, const std::vector<std::string>& paths) const;
  // Reads traces and parts, and warns about what people should know.
  Result<Gathered> gather(Context& context, const std::vector<std::string>& paths,
                          const AttributionOptions& options) const;
  Result<AttributionOptions> attribution(Context& context) const;
};

}  // namespace mfu::app
