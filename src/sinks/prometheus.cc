#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/file.h"
#include "base/json.h"
#include "mfu/sink.h"

namespace mfu {

namespace {

// perf/mfu becomes mfu_perf_mfu: all names have one prefix and use letters that the format allows.
std::string exposed(std::string_view name) {
  std::string text = name.starts_with("mfu/") ? "" : "mfu_";
  for (char each : name) text += each == '/' ? '_' : each;
  return text;
}

std::string label_escaped(std::string_view text) {
  std::string safe;
  for (char each : text) {
    if (each == '\\' || each == '"') safe += '\\';
    if (each == '\n') {
      safe += "\\n";
    } else {
      safe += each;
    }
  }
  return safe;
}

struct Help {
  std::string_view name, text;
};
constexpr Help kHelp[] = {
    {"training/epoch", "Epoch of the newest step"},
    {"training/loss", "Loss of the newest step"},
    {"training/grad_norm", "Norm of the gradient in the newest step"},
    {"training/learning_rate", "Learning rate of the newest step"},
    {"perf/mfu", "Model FLOPs utilization of the newest step, 1 being the whole peak"},
    {"perf/mfu_percent", "Model FLOPs utilization of the newest step in percent"},
    {"perf/step_time", "Seconds the newest step took"},
    {"perf/steps_per_second", "Steps a second"},
    {"perf/tokens_per_second", "Tokens trained a second"},
    {"perf/samples_per_second", "Samples trained a second"},
    {"mfu/tokens_per_second", "Tokens generated a second in the newest period"},
    {"mfu/flops_per_token", "FLOPs a generated token"},
    {"mfu/mfu_percentage", "Model FLOPs utilization of generation in percent"},
    {"mfu/total_tokens_generated", "Tokens generated in the newest period"},
    {"mfu/elapsed_time", "Seconds of the newest period of generation"},
    {"mfu/mbu_percentage", "Memory bandwidth utilization of generation in percent"},
};

// Help for the metrics of a phase, by the part of the name after the phase.
constexpr Help kPhaseHelp[] = {
    {"/tokens", "Tokens of the passes of a phase in the newest period"},
    {"/flop", "FLOPs that the passes of a phase needed in the newest period"},
    {"/time", "Seconds of the passes of a phase in the newest period"},
    {"/mfu_percentage", "Model FLOPs utilization of a phase in percent"},
    {"/mbu_percentage", "Memory bandwidth utilization of a phase in percent"},
};

std::string_view help_of(std::string_view name) {
  for (const Help& help : kHelp) {
    if (help.name == name) return help.text;
  }
  for (const Help& help : kPhaseHelp) {
    if (name.ends_with(help.name)) return help.text;
  }
  return name;
}

// A metric with one sample per rank. The format wants them next to each other.
struct Family {
  std::string name;
  std::string_view help;
  std::string samples;
  std::string_view type = "gauge";
};

struct Exposition {
  std::vector<Family> families;

  void add(std::string name, std::string_view help, double value, std::string_view labels,
           std::string_view type = "gauge") {
    auto is_it = [&](const Family& each) { return each.name == name; };
    auto found = std::find_if(families.begin(), families.end(), is_it);
    if (found == families.end()) {
      found = families.insert(found,
                              {.name = std::move(name), .help = help, .samples = {}, .type = type});
    }
    found->samples += fmt::format("{}{}{}{} {}\n", found->name, labels.empty() ? "" : "{", labels,
                                  labels.empty() ? "" : "}", json_number(value));
  }
};

std::string text_of(const Exposition& page) {
  std::string text;
  for (const Family& family : page.families) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{3}", family.name, family.help,
                        family.type, family.samples);
  }
  return text;
}

// `rank` holds the labels that say which rank the report is of.
void add_report(Exposition& page, const StepReport& report, const std::string& rank) {
  const UtilizationBasis& basis = *report.basis;
  std::string how = fmt::format(
      "convention=\"{}\",source=\"{}\",dtype=\"{}\"{}{}", describe(basis.convention).name,
      report.source ? name_of(*report.source) : "unknown",
      basis.precision ? name_of(*basis.precision) : "unknown", rank.empty() ? "" : ",", rank);
  page.add("mfu_step", "Number of the newest step", static_cast<double>(report.step), rank);
  for (const StepMetric& scalar : scalars_of(report)) {
    bool utilization = scalar.name.find("/mfu") != std::string_view::npos ||
                       scalar.name.find("flops") != std::string_view::npos;
    page.add(exposed(scalar.name), help_of(scalar.name), scalar.value, utilization ? how : rank);
  }
  if (basis.peak) {
    std::string labels = fmt::format("peak_source=\"{}\"{}{}", label_escaped(basis.peak_source),
                                     rank.empty() ? "" : ",", rank);
    page.add("mfu_peak_flop_per_second", "Dense peak of one device", basis.peak->per_s, labels);
  }
  page.add("mfu_devices", "Devices the numbers are of", static_cast<double>(basis.devices), rank);
}

class PrometheusSink : public Sink {
 public:
  explicit PrometheusSink(std::string path) : path_(std::move(path)) {}
  std::chrono::nanoseconds pace() const override { return std::chrono::seconds(1); }
  std::string name() const override { return fmt::format("the metrics file {}", path_); }
  Result<void> open() override {
    FileEnds ends = MFU_TRY(file_ends(path_));
    if (ends.empty || ends.first.starts_with("# HELP mfu_")) return {};
    std::string aside = MFU_TRY(set_aside(path_));
    notes_.push_back(fmt::format("{} was not written by mfu: it is {} now", path_, aside));
    return {};
  }
  std::vector<std::string> take_notes() override { return std::exchange(notes_, {}); }
  Result<void> write(std::span<const StepReport> reports) override {
    if (reports.empty()) return {};
    return write_file(path_, prometheus_text(reports.last(1)));
  }
  Result<void> close() override { return {}; }

 private:
  std::string path_;
  std::vector<std::string> notes_;
};

std::string labels_of(std::string_view run, const ProcessRecord& process) {
  const std::string* said = process.fact("device");
  std::string device = said == nullptr ? "cpu" : said->substr(0, said->find(' '));
  return fmt::format(
      "run=\"{}\",host=\"{}\",rank=\"{}\",device=\"{}\"", label_escaped(run),
      label_escaped(process.host),
      process.rank ? std::to_string(*process.rank) : fmt::format("pid {}", process.pid),
      label_escaped(device));
}

void add_phases(Exposition& page, const ProcessRecord& process, const std::string& labels) {
  constexpr const char* kNames[kRunPhases] = {"train",  "validation", "prefill",
                                              "decode", "forward",    "other"};
  // One sample per phase, over all models of the rank.
  for (std::size_t phase = 0; phase < kRunPhases; ++phase) {
    double model_flop = 0, hardware_flop = 0, tokens = 0, seconds = 0;
    bool seen = false;
    for (const PhaseTotal& each : process.phases) {
      if (static_cast<std::size_t>(each.phase) != phase) continue;
      seen = true;
      tokens += static_cast<double>(each.tokens);
      seconds += static_cast<double>(each.time.count()) / 1e9;
      for (const PhaseTotal::Line& line : each.lines) {
        model_flop += line.flop.model_flop.to_double();
        hardware_flop += line.flop.hardware_flop.to_double();
      }
    }
    if (!seen) continue;
    std::string of = fmt::format("{},phase=\"{}\"", labels, kNames[phase]);
    auto add = [&](const char* name, const char* help, double value) {
      page.add(name, help, value, of, "counter");
    };
    add("mfu_phase_model_flop_total", "FLOPs that the model needed, by what passes were for",
        model_flop);
    add("mfu_phase_hardware_flop_total", "FLOPs that were executed", hardware_flop);
    add("mfu_phase_tokens_total", "Tokens that entered the model", tokens);
    add("mfu_phase_seconds_total", "Time that passes took", seconds);
  }
}

void add_run(Exposition& page, const RunReport& report, const std::string& labels) {
  auto add = [&](const char* name, const char* help, std::optional<double> value) {
    if (value) page.add(name, help, *value, labels);
  };
  auto share = [](const std::optional<Fraction>& each) {
    return each ? std::optional(each->value) : std::nullopt;
  };
  add("mfu_run_mfu", "MFU of this launcher's ranks over their last steps", share(report.mfu));
  add("mfu_run_hfu", "HFU of this launcher's ranks over their last steps", share(report.hfu));
  add("mfu_run_peak_flop_per_second", "Dense peak of this launcher's devices together",
      report.peak ? std::optional(report.peak->per_s * static_cast<double>(report.devices))
                  : std::nullopt);
  add("mfu_run_ranks", "Ranks of this launcher that took steps", static_cast<double>(report.ranks));
  add("mfu_run_ranks_expected", "World size, where the program has one",
      report.ranks_expected ? std::optional(static_cast<double>(*report.ranks_expected))
                            : std::nullopt);
  add("mfu_run_restarts", "Workers of this launcher that were started again",
      static_cast<double>(report.restarts));
  add("mfu_run_attempt", "How often the run was started again", report.attempt);
  constexpr const char* kParts[kStepPhases] = {
      "mfu_run_data_wait_fraction", "mfu_run_optimizer_fraction", "mfu_run_communication_fraction",
      "mfu_run_checkpoint_fraction", "mfu_run_validation_fraction"};
  for (std::size_t i = 0; i < kStepPhases; ++i) {
    add(kParts[i], "Share of step time, as the host saw it", share(report.phase[i]));
  }
}

}  // namespace

std::string prometheus_text(std::string_view run, const RunReport& report,
                            std::span<const ServedProcess> processes) {
  Exposition page;
  add_run(
      page, report,
      fmt::format("run=\"{}\",host=\"{}\"", label_escaped(run), label_escaped(report.run.host)));
  for (const ServedProcess& each : processes) {
    std::string labels = labels_of(run, *each.process);
    if (each.newest) add_report(page, *each.newest, labels);
    add_phases(page, *each.process, labels);
  }
  return text_of(page);
}

std::string prometheus_text(std::span<const StepReport> reports) {
  Exposition page;
  for (const StepReport& report : reports) {
    std::optional<std::uint32_t> rank = report.basis->rank;
    add_report(page, report, rank ? fmt::format("rank=\"{}\"", *rank) : "");
  }
  return text_of(page);
}

std::unique_ptr<Sink> make_prometheus_sink(std::string path) {
  return std::make_unique<PrometheusSink>(std::move(path));
}

}  // namespace mfu
