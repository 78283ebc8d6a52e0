#include "run_asked.h"

#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <cmath>
#include <cstdlib>

#include "model_options.h"

namespace mfu::app {

namespace {

constexpr double kMostSteps = 255;  // steps of one window: the request keeps them in a byte

bool names_ranks(const std::string& text) {
  bool digit = false;
  for (char c : text) {
    if (c >= '0' && c <= '9') {
      digit = true;
    } else if ((c == ',' || c == '-') && digit) {
      digit = false;
    } else {
      return false;
    }
  }
  return digit;
}

}  // namespace

Result<std::chrono::milliseconds> parse_patience(const std::string& text, const std::string& what) {
  char* end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  std::string unit = end;
  double scale = unit.empty() || unit == "s" ? 1e3 : unit == "ms" ? 1 : unit == "m" ? 6e4 : 0;
  if (end == text.c_str() || scale == 0 || !(number >= 0) || number * scale > 1e9) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} {}: give a time, such as 10s or 500ms", what, text));
  }
  return std::chrono::milliseconds(std::llround(number * scale));
}

void RunAsked::add_to(CLI::App& app) {
  add_value(app, "--steps", "N", steps, "Stop the command after N steps of each rank");
  app.add_flag(
      "--explain{3}", explain,
      "Also say why: profile N steps after warm-up and explain them (--explain=N, default 3)");
  add_value(app, "--explain-after", "STEP", after,
            "With --explain: begin after this step (default: when step times have settled)");
  add_value(app, "--explain-ranks", "LIST", ranks,
            "With --explain: profile these ranks, such as 0,3 or 0-7 (default: the first 8)");
  app.add_flag("--stacks", stacks,
               "With --explain: also record lines of Python code, which slows the profiled steps");
  add_value(
      app, "--grace", "TIME", grace,
      "With --steps: how long processes may take to end before they are killed (default 10s)");
}

Result<std::string> RunAsked::text() const {
  std::string text;
  if (!grace.empty() && steps.empty()) {
    return fail(ErrorCode::invalid_argument, "--grace needs --steps");
  }
  if (!steps.empty()) {
    text += fmt::format(" stop={}", MFU_TRY(parse_whole_amount(steps, "--steps", 1e15)));
  }
  bool more = !after.empty() || !ranks.empty() || stacks;
  if (more && !explains()) {
    return fail(ErrorCode::invalid_argument,
                "--explain-after, --explain-ranks and --stacks need --explain");
  }
  if (explains()) {
    text += fmt::format(" steps={}", MFU_TRY(parse_whole_amount(explain, "--explain", kMostSteps)));
  }
  if (!after.empty()) {
    std::uint64_t step =
        after == "0" ? 0 : MFU_TRY(parse_whole_amount(after, "--explain-after", 1e15));
    text += fmt::format(" after={}", step);
  }
  if (!ranks.empty()) {
    if (!names_ranks(ranks)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--explain-ranks {}: give numbers, such as 0,3 or 0-7", ranks));
    }
    text += " ranks=" + ranks;
  }
  if (stacks) text += " stacks=1";
  return text;
}

Result<std::chrono::milliseconds> RunAsked::patience() const {
  return parse_patience(grace.empty() ? "10s" : grace, "--grace");
}

}  // namespace mfu::app
