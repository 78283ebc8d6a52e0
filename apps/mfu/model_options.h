// Options that several commands share: which model, which step, which device.
#pragma once

#include <mfu/mfu.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <string>
#include <vector>

#include "cli.h"

namespace mfu::app {

// A config.json or a shape.
struct ModelOptions {
  std::vector<std::string> paths;
  std::string architecture;
  std::vector<std::string> overrides;  // key=value
  std::string assume;
  std::optional<std::uint64_t> mtp_layers;
  ModelShape shape;
  std::string mlp = "gated";
  std::string parameters;

  void add_to(CLI::App& app, bool several);
  bool by_shape() const { return shape.layers > 0 || shape.hidden > 0 || shape.heads > 0; }
  Result<ModelSpec> load(const std::string& path, Diagnostics& diagnostics) const;
  Result<ConfigOptions> config() const;
  Result<std::optional<std::uint64_t>> published_parameters() const;
};

// One step of it.
struct StepOptions {
  std::string phase = "train";
  std::string recompute = "none";
  std::string mla = "auto";
  std::string grid;
  std::string lengths;
  Workload work{.sequence = 0};  // 0: not given

  void add_to(CLI::App& app);
  Result<Workload> workload() const;
};

// What it runs on, and how fast.
struct DeviceOptions {
  std::string device;
  std::string type = "bf16";
  std::string peak;

  void add_to(CLI::App& app);
  bool given() const { return !device.empty() || !peak.empty(); }
  struct Against {
    Device device;    // without one, only its name
    ChosenPeak peak;  // has a rate
  };
  // --peak wins over --device. Refused: a device that has no peak for the type, nor for a wider
  // one, and a name that fits several.
  Result<Against> against(const Catalog& catalog) const;
};

// --dtype and --peak.
Result<Precision> parse_type(const std::string& text);
Result<FlopRate> parse_peak(const std::string& text);

// "45.2%", "0.452" -> 0.452; counts with exponents ("15e12") and k, M, B, T.
Result<Fraction> parse_share(const std::string& text, const std::string& what);
Result<double> parse_amount(const std::string& text, const std::string& what);
// The same where only a whole number from 1 to `most` makes sense.
Result<std::uint64_t> parse_whole_amount(const std::string& text, const std::string& what,
                                         double most);

// An option that takes a whole number from 1 on: CLI11 alone would take -1 for 2^64 - 1.
CLI::Validator whole_number();

}  // namespace mfu::app
