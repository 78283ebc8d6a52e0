// Binds the explanation of traces. The answer is the JSON of `mfu explain --json`, or its page.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <future>

#include "core.h"

namespace mfu::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

struct Question {
  std::vector<std::string> paths;
  std::string window, device, precision, catalog;
  std::optional<double> peak_flop_per_s;
  bool page = false;
};

Result<AttributionOptions> options_of(const Question& question, const Catalog& catalog) {
  AttributionOptions options;
  options.catalog = &catalog;
  options.timeline = question.page;
  if (!question.window.empty()) options.window = MFU_TRY(parse_window(question.window));
  if (question.device == "this") {
    options.device = detect_cpu().device;
  } else if (!question.device.empty()) {
    options.device = MFU_TRY(find_device(catalog, question.device));
  }
  for (const std::string& path : question.paths) {  // what the observer counted of the same steps
    std::string folder = std::filesystem::path(path).parent_path();
    for (ProfiledWindow& each : read_windows(folder.empty() ? "." : folder)) {
      if (std::filesystem::path(each.trace).filename() != std::filesystem::path(path).filename()) {
        continue;
      }
      options.counted.push_back(std::move(each));
      options.window.whole_steps = true;
    }
  }
  if (!question.precision.empty()) options.precision = MFU_TRY(precision_of(question.precision));
  if (question.peak_flop_per_s) {
    if (!(*question.peak_flop_per_s > 0) || !std::isfinite(*question.peak_flop_per_s))
      return fail(ErrorCode::invalid_argument, "peak: FLOP/s above 0 were expected");
    options.peak = FlopRate{*question.peak_flop_per_s};
  }
  return options;
}

struct Told {
  std::string json, page;  // the page only if it was asked for
};

Result<Told> answer(const Question& question, const std::atomic<bool>& cancel) {
  Catalog catalog = MFU_TRY(catalog_of(question.catalog));
  AttributionOptions options = MFU_TRY(options_of(question, catalog));
  ReadOptions reading;
  reading.cancel = &cancel;
  Parts parts = MFU_TRY(gather(question.paths, options, reading));
  ExplainReport report = report_explanation(MFU_TRY(attribute(parts, options)));
  return Told{to_json(report, Voice::python),
              question.page ? to_html(report, Voice::python) : std::string()};
}

// Runs on another thread, so that Ctrl-C ends it at once: Python handles signals only between its
// own instructions.
Told explain(const Question& question) {
  std::atomic<bool> cancel = false;
  auto waiting = std::async(std::launch::async, [&] { return answer(question, cancel); });
  while (true) {
    {
      nb::gil_scoped_release released;
      if (waiting.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready) break;
    }
    if (PyErr_CheckSignals() != 0) {
      cancel = true;
      {
        nb::gil_scoped_release released;
        waiting.wait();
      }
      throw nb::python_error();
    }
  }
  return value_or_raise(waiting.get());
}

}  // namespace

void bind_trace(nb::module_& module) {
  module.def(
      "explain",
      [](std::vector<std::string> paths, std::string window, std::string device,
         std::string precision, std::optional<double> peak, std::string catalog, bool page) {
        Told told = explain({std::move(paths), std::move(window), std::move(device),
                             std::move(precision), std::move(catalog), peak, page});
        return nb::make_tuple(told.json, told.page);
      },
      "paths"_a, "window"_a, "device"_a, "dtype"_a, "peak"_a.none(), "catalog"_a, "page"_a,
      nb::sig("def explain(paths: Sequence[str], window: str, device: str, dtype: str, peak: float "
              "| None, catalog: str, page: bool) -> tuple[str, str]"),
      "What `mfu explain --json` prints, and the page that --html writes ("
      " where not asked for).");
}

}  // namespace mfu::python
