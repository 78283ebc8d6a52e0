// Options that several commands share: which model, which step, which device.
#pragma once

#include <mfu/mfu.h>

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli.h"

namespace mfu::app {

// Which model: a config.json or a shape.
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
  Result<ModelSpec> load(const std::string& path) const;
  Result<ConfigOptions> config() const;
  Result<std::optional<std::uint64_t>> published_parameters() const;
};

// Which step of that model.
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

// On which device it runs, and what its peak is.
struct DeviceOptions {
  std::string device;
  std::string type = "bf16";
  std::string peak;

  void add_to(CLI::App& app);
  bool given() const { return !device.empty() || !peak.empty(); }
  struct Against {
    Device device;    // only a name if --peak was given without --device
    ChosenPeak peak;  // always has a rate
  };
  // --peak wins over --device. Fails if the device has no peak for the type nor for a wider one,
  // and if the name matches several devices.
  Result<Against> against(const Catalog& catalog) const;
};

// The values of --dtype and --peak.
Result<Precision> parse_type(const std::string& text);
Result<FlopRate> parse_peak(const std::string& text);

// parse_share: "45.2%" and "0.452" are 0.452. parse_amount: a number above 0, also with an exponent
// ("15e12") or with k, M, B, G or T. `what` is the option, for the message.
Result<Fraction> parse_share(const std::string& text, const std::string& what);
Result<double> parse_amount(const std::string& text, const std::string& what);
// Like parse_amount, for whole numbers from 1 to `most`.
Result<std::uint64_t> parse_whole_amount(const std::string& text, const std::string& what,
                                         double most);

// "a,b,c" as three texts.
std::vector<std::string> comma_parts(const std::string& text);

}  // namespace mfu::app
