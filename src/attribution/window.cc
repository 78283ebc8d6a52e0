#include "attribution/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/saturating.h"
#include "base/text.h"

namespace mfu {

namespace {

struct Mark {
  std::optional<std::int64_t> ns;
  bool relative = false;
};

Result<Mark> parse_mark(std::string_view text, std::string_view whole) {
  Mark mark;
  if (text.empty()) return mark;
  struct Unit {
    std::string_view name;
    double ns;
  };
  constexpr std::array<Unit, 5> kUnits = {
      {{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  double scale = 0;
  for (const Unit& unit : kUnits) {
    if (scale == 0 && text.ends_with(unit.name)) {
      scale = unit.ns;
      text.remove_suffix(unit.name.size());
    }
  }
  std::optional<double> number = parse_number(text);
  if (scale == 0) {
    if (std::optional<std::uint64_t> count = parse_count(text); count && *count <= INT64_MAX) {
      mark.ns = static_cast<std::int64_t>(*count);
      return mark;
    }
    number.reset();
  }
  if (!number || std::fabs(*number * scale) > 9e18) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--window {}: give all, steps or FROM:TO, where a bare whole number is "
                            "nanoseconds of the trace's clock and 1.5ms is after the first device "
                            "event",
                            printable(whole)));
  }
  mark.ns = static_cast<std::int64_t>(std::llround(*number * scale));
  mark.relative = true;
  return mark;
}

struct Bounds {
  std::int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
};

// When the host asked for a span, on the host's clock. Empty if that was not recorded.
std::optional<std::int64_t> asked_ns(const Trace& trace, const WorkSpan& span, bool cpu) {
  if (cpu) return span.start_ns;
  std::uint32_t launch = trace.device.launch[span.event];
  if (launch == kNone) return std::nullopt;
  return trace.launches.start_ns[launch];
}

std::int64_t recorded_end_ns(const Trace& trace, const WorkSpan& span, bool cpu) {
  if (cpu) return span.end_ns;
  return span.start_ns + std::max<std::int64_t>(trace.device.duration_ns[span.event], 0);
}

// The first start and the last end on the device of what each marked step launched.
std::vector<Bounds> bounds_of_steps(const Trace& trace, const Works& works, bool cpu) {
  std::vector<Bounds> bounds(trace.steps.size());
  for (const WorkSpan& span : works.spans) {
    std::optional<std::int64_t> asked = asked_ns(trace, span, cpu);
    if (!asked) continue;
    std::optional<std::size_t> step = step_at(trace, *asked);
    if (!step) continue;
    std::size_t index = *step;
    bounds[index].first_ns = std::min(bounds[index].first_ns, span.start_ns);
    bounds[index].last_ns = std::max(bounds[index].last_ns, recorded_end_ns(trace, span, cpu));
  }
  return bounds;
}

// Steps fill the window without gaps. Each begins with the first device event it launched, and
// never before the step before it.
std::vector<StepLedger> steps_in(const Trace& trace, const std::vector<Bounds>& bounds,
                                 const Window& window) {
  std::vector<StepLedger> steps;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (bounds[i].first_ns == INT64_MAX) continue;
    StepLedger& step = steps.emplace_back();
    step.number = trace.steps[i].number;
    step.start_ns = bounds[i].first_ns;
  }
  std::stable_sort(steps.begin(), steps.end(), [](const StepLedger& a, const StepLedger& b) {
    return a.start_ns < b.start_ns;
  });
  if (!steps.empty()) steps.front().start_ns = window.start_ns;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::int64_t end = i + 1 < steps.size() ? steps[i + 1].start_ns : window.end_ns;
    steps[i].end_ns = std::min(end, window.end_ns);
    steps[i].start_ns = std::min(steps[i].start_ns, steps[i].end_ns);
  }
  return steps;
}

Result<Window> range_window(const WindowQuestion& asked, const Window& all) {
  Window window = all;
  window.policy = WindowPolicy::range;
  if (asked.from_ns)
    window.start_ns = saturating_sum(*asked.from_ns, asked.from_relative ? all.start_ns : 0);
  if (asked.to_ns)
    window.end_ns = saturating_sum(*asked.to_ns, asked.to_relative ? all.start_ns : 0);
  window.start_ns = std::max(window.start_ns, all.start_ns);
  window.end_ns = std::min(window.end_ns, all.end_ns);
  if (window.start_ns >= window.end_ns) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the window holds no device event: the trace runs from {} to {} ns",
                            all.start_ns, all.end_ns));
  }
  return window;
}

}  // namespace

std::string_view name_of(WindowPolicy policy) {
  static constexpr std::array<std::string_view, 3> kNames = {"all", "steps", "range"};
  return kNames[static_cast<std::size_t>(policy)];
}

Result<WindowQuestion> parse_window(std::string_view text) {
  WindowQuestion question;
  if (text == "all" || text == "steps") {
    question.policy = text == "all" ? WindowPolicy::all : WindowPolicy::steps;
    return question;
  }
  std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--window {}: give all, steps or FROM:TO", printable(text)));
  }
  question.policy = WindowPolicy::range;
  Mark from = MFU_TRY(parse_mark(text.substr(0, colon), text));
  Mark to = MFU_TRY(parse_mark(text.substr(colon + 1), text));
  question.from_ns = from.ns;
  question.from_relative = from.relative;
  question.to_ns = to.ns;
  question.to_relative = to.relative;
  return question;
}

std::optional<std::size_t> step_at(const Trace& trace, std::int64_t ns) {
  auto after = std::upper_bound(
      trace.steps.begin(), trace.steps.end(), ns,
      [](std::int64_t each, const ProfilerStep& step) { return each < step.start_ns; });
  if (after == trace.steps.begin()) return std::nullopt;
  std::size_t index = static_cast<std::size_t>(after - trace.steps.begin()) - 1;
  const ProfilerStep& step = trace.steps[index];
  if (ns - step.start_ns >= step.duration_ns) return std::nullopt;
  return index;
}

Result<WindowPlan> plan_window(const Trace& trace, const Works& works, const WindowQuestion& asked,
                               bool cpu, const ProfiledWindow* counted) {
  WindowPlan plan;
  Window all;
  all.start_ns = works.spans.front().start_ns;
  all.end_ns = all.start_ns;
  for (const WorkSpan& span : works.spans) {
    all.end_ns = std::max(all.end_ns, recorded_end_ns(trace, span, cpu));
  }
  std::vector<Bounds> bounds = bounds_of_steps(trace, works, cpu);
  // A program that ended inside the window left a part of a step, which the observer did not count.
  std::size_t whole = bounds.size();
  if (counted != nullptr && counted->steps > 0) {
    whole = std::min<std::size_t>(whole, counted->steps);
    std::fill(bounds.begin() + static_cast<std::ptrdiff_t>(whole), bounds.end(), Bounds{});
  }
  Bounds marked;
  for (const Bounds& each : bounds) {
    if (each.first_ns == INT64_MAX) continue;
    if (marked.first_ns == INT64_MAX) marked.first_ns = each.first_ns;
    marked.last_ns = each.last_ns;
  }
  bool has_steps = marked.first_ns < marked.last_ns;
  WindowPolicy policy = asked.policy.value_or(has_steps ? WindowPolicy::steps : WindowPolicy::all);
  plan.window = all;
  if (policy == WindowPolicy::range) {
    plan.window = MFU_TRY(range_window(asked, all));
  } else if (policy == WindowPolicy::steps && has_steps) {
    plan.window = {WindowPolicy::steps, marked.first_ns, marked.last_ns, 0};
    if (cpu && asked.whole_steps) {
      const ProfilerStep &first = trace.steps.front(), &last = trace.steps[whole - 1];
      plan.window.start_ns = std::min(plan.window.start_ns, first.start_ns);
      plan.window.end_ns = std::max(plan.window.end_ns, last.start_ns + last.duration_ns);
    }
    plan.steps = steps_in(trace, bounds, plan.window);
  } else if (policy == WindowPolicy::steps) {
    plan.notes.emplace_back("no_step_marked");
  }
  for (const Bounds& each : bounds) plan.window.steps += each.first_ns != INT64_MAX ? 1 : 0;
  return plan;
}

}  // namespace mfu
