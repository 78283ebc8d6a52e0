#include <fmt/format.h>

#include <algorithm>

#include "base/embed.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"
#include "hardware/ceiling_times.h"
#include "mfu/machine.h"

MFU_EMBED(mfu_ceiling_torch_py, MFU_HARDWARE_DIR "/ceiling_torch.py");

namespace mfu {

namespace {

std::string said_in(const Json& line, std::string_view name) {
  return printable(line.text_at(name), 200);
}

std::optional<Measured> measured_of(const Json& line) {
  auto precision = parse_precision(said_in(line, "dtype"));
  if (!precision) return std::nullopt;
  Measured result;
  result.precision = *precision;
  result.method = fmt::format("PyTorch {} mm on {}", said_in(line, "version"), said_in(line, "at"));
  result.why_not = said_in(line, "why_not");
  auto best = line.number_at("best");
  auto median = line.number_at("median");
  if (!best || !median || *median <= 0) return result;
  result.rate = FlopRate{*best};
  result.median = FlopRate{*median};
  result.spread = Fraction{
      (line.number_at("p90").value_or(*best) - line.number_at("p10").value_or(*median)) / *median};
  result.runs = static_cast<std::size_t>(std::max(0.0, line.number_at("runs").value_or(0)));
  result.shape = said_in(line, "shape");
  return result;
}

Ceiling& ceiling_of(std::vector<Ceiling>& ceilings, const std::string& device) {
  for (Ceiling& known : ceilings) {
    if (known.device == device) return known;
  }
  Ceiling fresh;
  fresh.device = device;
  fresh.measured_at = utc_now();
  ceilings.push_back(std::move(fresh));
  return ceilings.back();
}

}  // namespace

Result<std::vector<Ceiling>> measure_torch_ceilings(const std::string& python,
                                                    const MeasureOptions& options,
                                                    const Progress& progress) {
  std::vector<Ceiling> ceilings;
  std::string problem;
  auto on_line = [&](std::string_view text) {
    Result<Json> line = parse_json(text, "PyTorch");
    if (!line.has_value()) return;
    if (auto done = line->number_at("progress"); done && progress) {
      progress({std::clamp(*done, 0.0, 1.0)}, said_in(*line, "what"));
    }
    if (std::string said = said_in(*line, "problem"); !said.empty()) problem = said;
    if (auto result = measured_of(*line)) {
      ceiling_of(ceilings, said_in(*line, "device")).measured.push_back(*result);
    }
  };
  std::vector<std::string> command = {python, "-", fmt::format("{:g}", options.seconds)};
  for (Precision precision : options.precisions) command.emplace_back(name_of(precision));
  auto patience = std::chrono::milliseconds(static_cast<long>(options.seconds * 4000) + 120'000);
  ProcessEnd end =
      run_command(command, {mfu_ceiling_torch_py, mfu_ceiling_torch_py_end}, patience, on_line);
  if (end.good() && problem.empty()) return ceilings;
  return fail(ErrorCode::unsupported,
              fmt::format("{}: {}", python,
                          problem.empty() ? "PyTorch's measurement " + end.describe() : problem));
}

}  // namespace mfu
