// Asks for every device of the catalogue and every data type in every way the library offers. All
// must give the same answer. tests/python/package/test_one_truth.py does the same with the command
// line and Python.
#include <gtest/gtest.h>

#include <cmath>

#include "attribution/peaks.h"
#include "mfu/mfu.h"
#include "monitor/resolve.h"

namespace mfu {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::uint64_t kFlop = 1'000'000'000'000u;  // in the one second that everything takes

RunRecord run_in(std::string_view type) {
  std::string name(type);
  TypedFlop typed{.type = name, .flop = {kFlop, kFlop, 0}};
  ProcessRecord process;
  process.last = seconds(2);
  Step first{.end = seconds(1), .flop = {typed}};
  Step second{.start = seconds(1), .end = seconds(2), .flop = {typed}};
  process.steps = {first, second};
  OperatorTotal total;
  total.name = "aten::mm";
  total.type = name;
  total.flop = {2 * kFlop, 2 * kFlop, 0};
  process.totals = {total};
  RunRecord record;
  record.processes = {process};
  return record;
}

std::optional<double> by_run(const Device& device, std::string_view type) {
  RunQuestion question;
  question.device.device = device;
  RunReport report = report_run(run_in(type), question);
  std::optional<double> peak;
  if (report.mfu) peak = kFlop / report.mfu->value;
  std::optional<double> said;
  if (report.peak) said = report.peak->per_s;
  EXPECT_EQ(peak.has_value(), said.has_value());
  if (peak && said) {
    EXPECT_NEAR(*peak, *said, 1e-9 * *said) << device.name << ' ' << type;
  }
  return said;
}

std::optional<double> by_step(const Device& device, std::string_view type) {
  RunQuestion question;
  question.device.device = device;
  std::vector<StepReport> steps = report_run_steps(run_in(type), question);
  const std::optional<FlopRate>& peak = steps.at(0).basis->peak;
  EXPECT_EQ(peak.has_value(), steps[0].value("perf/mfu").has_value());
  return peak ? std::optional(peak->per_s) : std::nullopt;
}

// Asks as attribute() does for the operators of a trace.
std::optional<double> by_explain(const Device& device, std::string_view type) {
  Peaks peaks({.device = &device});
  const std::optional<FlopRate>& rate = peaks.of({parse_element_type(type), false}).rate;
  return rate ? std::optional(rate->per_s) : std::nullopt;
}

std::optional<double> by_monitor(const Device& device, std::string_view type) {
  MonitorOptions options;
  options.config.device = device.name;
  options.config.precision = parse_precision(type);
  resolve_options(options, [](const std::string&) {});
  return options.peak ? std::optional(options.peak->per_s) : std::nullopt;
}

TEST(OneTruth, every_way_of_asking_names_the_same_peak) {
  std::size_t asked = 0, unknown = 0;
  for (const Device& device : Catalog::builtin().devices()) {
    for (Precision precision : all_precisions()) {
      std::string_view type = name_of(precision);
      ChosenPeak chosen = choose_peak({.device = &device}, type);
      std::optional<double> rate;
      if (chosen.rate) rate = chosen.rate->per_s;
      EXPECT_EQ(by_run(device, type), rate) << device.name << ' ' << type;
      EXPECT_EQ(by_step(device, type), rate) << device.name << ' ' << type;
      EXPECT_EQ(by_explain(device, type), rate) << device.name << ' ' << type;
      EXPECT_EQ(by_monitor(device, type), rate) << device.name << ' ' << type;
      ++asked;
      unknown += rate ? 0 : 1;
    }
  }
  EXPECT_GT(asked, 2000u);
  EXPECT_LT(unknown, asked / 5);
}

}  // namespace
}  // namespace mfu
