#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/file.h"
#include "base/json.h"
#include "mfu/sink.h"

namespace mfu {

namespace {

// perf/mfu becomes mfu_perf_mfu: one namespace, letters that the format allows.
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

std::string_view help_of(std::string_view name) {
  for (const Help& help : kHelp) {
    if (help.name == name) return help.text;
  }
  return name;
}

// A metric with a sample a rank: the format wants them together.
struct Family {
  std::string name;
  std::string_view help;
  std::string samples;
};

struct Exposition {
  std::vector<Family> families;

  void add(std::string name, std::string_view help, double value, std::string_view labels) {
    auto is_it = [&](const Family& each) { return each.name == name; };
    auto found = std::find_if(families.begin(), families.end(), is_it);
    if (found == families.end()) {
      found = families.insert(found, {.name = std::move(name), .help = help, .samples = {}});
    }
    found->samples += fmt::format("{}{}{}{} {}\n", found->name, labels.empty() ? "" : "{", labels,
                                  labels.empty() ? "" : "}", json_number(value));
  }
};

void add_report(Exposition& page, const StepReport& report) {
  const UtilizationBasis& basis = *report.basis;
  std::string rank = basis.rank ? fmt::format("rank=\"{}\"", *basis.rank) : "";
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

}  // namespace

std::string prometheus_text(std::span<const StepReport> reports) {
  Exposition page;
  for (const StepReport& report : reports) add_report(page, report);
  std::string text;
  for (const Family& family : page.families) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n{2}", family.name, family.help,
                        family.samples);
  }
  return text;
}

std::unique_ptr<Sink> make_prometheus_sink(std::string path) {
  return std::make_unique<PrometheusSink>(std::move(path));
}

}  // namespace mfu
