#include <fmt/format.h>

#include "commands.h"
#include "model_options.h"
#include "progress.h"

namespace mfu::app {

namespace {

struct PeakOptions {
  std::vector<std::string> words;  // the words of the name, which may have several
  bool list = false;
  bool measure = false;
  double seconds = 8;
  std::vector<std::string> types;
};

Result<std::vector<Precision>> precisions_of(const std::vector<std::string>& names) {
  std::vector<Precision> precisions;
  for (const std::string& name : names) precisions.push_back(MFU_TRY(parse_type(name)));
  return precisions;
}

// Adds what PyTorch measured to the device of the same name. PyTorch's "cpu" is the processor.
void add_torch(std::vector<Ceiling> measured, const Machine& machine,
               std::vector<std::optional<Ceiling>>& ceilings) {
  for (Ceiling& each : measured) {
    for (std::size_t i = 0; i < machine.devices.size(); ++i) {
      const FoundDevice& found = machine.devices[i];
      bool processor = each.device == "cpu" && found.device && found.device->kind == "cpu";
      if (!processor && each.device != found.driver_name) continue;
      each.device = found.driver_name;
      each.conditions = conditions_of(found);
      if (!ceilings[i] || !processor) {
        ceilings[i] = each;
      } else {
        ceilings[i]->measured.insert(ceilings[i]->measured.end(), each.measured.begin(),
                                     each.measured.end());
      }
    }
  }
}

std::vector<std::optional<Ceiling>> measure_all(const Context& context, const Machine& machine,
                                                const MeasureOptions& options) {
  std::vector<std::optional<Ceiling>> ceilings(machine.devices.size());
  ProgressBar bar("measuring");
  auto show = [&](double from, double share) {
    return [&bar, from, share](Fraction done, std::string_view what) {
      bar.show({from + done.value * share}, what);
    };
  };
  for (std::size_t i = 0; i < machine.devices.size(); ++i) {
    const FoundDevice& found = machine.devices[i];
    if (!found.device || found.device->kind != "cpu") continue;
    ceilings[i] = measure_cpu_ceiling(found, options, show(0, 0.7));
    ceilings[i]->conditions = conditions_of(found);
  }
  MeasureOptions torch_options = options;
  torch_options.seconds = options.seconds * 0.5;
  Result<std::vector<Ceiling>> torch =
      measure_torch_ceilings(context.python(), torch_options, show(0.7, 0.3));
  if (torch.has_value()) {
    add_torch(std::move(torch).value(), machine, ceilings);
  } else {
    for (auto& ceiling : ceilings) {
      if (ceiling)
        ceiling->notes.push_back({"torch_not_measured", {{"why", torch.error().message}}});
    }
  }
  for (const auto& ceiling : ceilings) {
    if (!ceiling) continue;
    Result<void> stored = store_ceiling(*ceiling);
    if (!stored.has_value())
      context.warn(stored.error().message + " (the ceiling is shown but not stored)");
  }
  return ceilings;
}

Result<int> show_machine(Context& context, const PeakOptions& options) {
  Diagnostics diagnostics;
  MeasureOptions measuring{options.seconds, MFU_TRY(precisions_of(options.types))};
  Machine machine = detect_machine(context.catalog(), diagnostics);
  context.warn(diagnostics);
  std::vector<std::optional<Ceiling>> ceilings(machine.devices.size());
  if (options.measure) ceilings = measure_all(context, machine, measuring);
  for (std::size_t i = 0; i < machine.devices.size(); ++i) {
    FoundDevice& found = machine.devices[i];
    if (!ceilings[i]) ceilings[i] = stored_ceiling(found);
    if (ceilings[i] && found.device && found.device->kind == "cpu") {
      found.device = with_measured_peak(*found.device, *ceilings[i]);
    }
  }
  PeakReport report = report_machine(machine, ceilings);
  context.print(context.json() ? to_json(report) : to_text(report, context.style()));
  return kGood;
}

Result<int> show_devices(Context& context, const std::string& name) {
  const Catalog& catalog = context.catalog();
  std::vector<Device> devices = name.empty() ? catalog.devices() : match_devices(catalog, name);
  if (devices.empty()) {
    MFU_TRY(find_device(catalog, name));
  }
  PeakReport report = report_devices(devices);
  context.print(context.json() ? to_json(report) : to_text(report, context.style()));
  return kGood;
}

Result<int> run(Context& context, const PeakOptions& options) {
  std::string name = fmt::format("{}", fmt::join(options.words, " "));
  if (!(options.seconds > 0 && options.seconds <= 3600)) {
    return fail(ErrorCode::invalid_argument, "--seconds must be above 0 and at most 3600");
  }
  if (!options.types.empty() && !options.measure) {
    return fail(ErrorCode::invalid_argument, "--dtype needs --measure");
  }
  if (!name.empty() && options.measure) {
    return fail(ErrorCode::invalid_argument,
                "--measure measures the devices of this machine. Leave the name out");
  }
  if (!name.empty() || options.list) return show_devices(context, name);
  return show_machine(context, options);
}

}  // namespace

Command peak_command() {
  auto options = std::make_shared<PeakOptions>();
  CommandText text{
      "peak",
      "What could this hardware do?",
      "Shows peaks by data type, each with its source: for the devices of this machine, or for "
      "those that match NAME. Give a name as the driver prints it. A name that matches several "
      "variants (h100) lists them all. An unknown name gets no peak: mfu does not guess.\n\n"
      "MFU is measured against the dense peak of the data type in which the matmuls run, for one "
      "device as the driver counts devices. The peak of a processor is cores × FLOP per cycle × "
      "measured clock.\n\n"
      "With --measure you also get the ceiling: the best rate that a matrix multiply really "
      "reaches on this machine, with OpenBLAS, oneDNN and PyTorch, and the memory bandwidth that a "
      "triad reaches. It is stored, and from then on shown beside the peak.",
      {{"mfu peak", "the devices of this machine"},
       {"mfu peak \"NVIDIA H100 80GB HBM3\"", "one device, by the name its driver gives"},
       {"mfu peak h100", "every variant of the H100"},
       {"mfu peak --measure", "what this machine really reaches"},
       {"mfu peak --list --json", "the whole catalogue, for a script"},
       {"mfu peak --catalog mine.csv \"ACME Z9\"",
        "a device of your own (docs/formats/catalog.md)"}}};
  auto add = [options](CLI::App& app) {
    add_value(app, "NAME", "NAME", options->words,
              "Device to look up (default: the devices of this machine)");
    app.add_flag("--list", options->list, "Show every device of the catalogue");
    app.add_flag("--measure", options->measure, "Measure the ceiling of this machine's devices");
    add_value(app, "--seconds", "S", options->seconds,
              "With --measure: about how long the processor is measured (default 8)");
    add_value(app, "--dtype", "TYPE", options->types, "With --measure: only these data types")
        ->delimiter(',')
        ->allow_extra_args(false);
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
