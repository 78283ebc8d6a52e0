#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "commands.h"
#include "demo_training.h"
#include "sinks/table.h"

namespace mfu::app {

namespace {

constexpr std::size_t kIndent = 3;

// A line of the tour, broken at the width of the terminal.
void tell(const Context& context, std::string_view text) {
  std::size_t width = std::max(context.style().width, 2 * kIndent) - kIndent;
  context.print(std::string(kIndent, ' ') + wrapped(text, width, kIndent));
}

void say(const Context& context, std::string_view text) {
  if (context.json()) return;
  std::string shown = wrapped(text, context.style().width, kIndent);
  context.print("\n" + inked(shown, Ink::bold, context.style()) + "\n");
  std::fflush(stdout);
}

struct Training {
  RunReport report;
  std::string json;
};

Result<Training> train(Context& context, const std::string& folder, bool changed) {
  RunRecord record = MFU_TRY(run_training({.folder = folder,
                                           .python = context.python(),
                                           .changed = changed,
                                           .shown = !context.json()}));
  std::ifstream file(folder + "/run/summary.json");
  std::string json;
  std::getline(file, json);
  return Training{report_run(record, {}), json};
}

std::string gain_text(const Training& before, const Training& after, double gain) {
  auto shown = [](const Training& each) {
    return duration_text(static_cast<double>(each.report.step->median.count()));
  };
  return fmt::format(
      "A step took {} and takes {} now: {:.1f} times as fast, by the medians of "
      "unprofiled steps.",
      shown(before), shown(after), gain);
}

// How long other processes kept the cores from the training, as a share of step time.
double preempted_fraction(const Training& before, const Training& after) {
  double most = 0;
  for (const Training* each : {&before, &after}) {
    const auto& share = each->report.host[static_cast<std::size_t>(HostPart::preempted)];
    if (share) most = std::max(most, share->value);
  }
  return most;
}
constexpr double kMuchPreempted = 0.1;

Result<int> tour(Context& context, const std::string& folder) {
  say(context,
      "1. A small training, as a newcomer would write it. How much of this machine does it use, "
      "and why not more?   mfu run --explain -- python demo.py");
  Training before = MFU_TRY(train(context, folder + "/before", false));
  say(context,
      "2. The advice is followed: rows are made once, before training; the optimizer gets "
      "fused=True.");
  Training after = MFU_TRY(train(context, folder + "/after", true));
  if (!before.report.step || !after.report.step) {
    return fail(ErrorCode::not_found, "the training took no step that can be compared");
  }
  double gain = static_cast<double>(before.report.step->median.count()) /
                static_cast<double>(std::max<std::int64_t>(after.report.step->median.count(), 1));
  double preempted = preempted_fraction(before, after);
  if (context.json()) {
    context.print(fmt::format(
        R"({{"schema":"mfu.demo/1","before":{},"after":{},"gain":{:.4f},"preempted_fraction":{:.4f}}})",
        before.json, after.json, gain, preempted));
    return kGood;
  }
  say(context, "3. Is it faster?");
  tell(context, gain_text(before, after, gain));
  if (preempted >= kMuchPreempted) {
    tell(
        context,
        fmt::format(
            "Other processes had the cores for up to {:.0f}% of a step, so this gain is uncertain. "
            "Run mfu demo again when the machine is quiet.",
            100 * preempted));
  }
  tell(context, fmt::format("The two pages; delete {} when you have seen them:", folder));
  for (const char* run : {"before", "after"}) {
    context.print(fmt::format("   {}/{}/run/report.html", folder, run));  // a path stays whole
  }
  say(context,
      "Next: mfu run --explain -- your own program · mfu explain TRACE · mfu peak "
      "--measure · mfu --help");
  return kGood;
}

Result<int> demonstrate(Context& context) {
  std::string folder = (std::filesystem::temp_directory_path() / "mfu-demo-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    return fail(ErrorCode::io, fmt::format("cannot make a folder like {}", folder));
  }
  Result<int> done = tour(context, folder);
  if (done.has_value() && !context.json()) return done;  // the pages stay, to be looked at
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (context.json()) return done;
  // The reason is printed. A machine without PyTorch still gets a short tour.
  context.print("   left out: " + done.error().message);
  Diagnostics diagnostics;
  Machine machine = detect_machine(context.catalog(), diagnostics);
  context.warn(diagnostics);
  for (const FoundDevice& found : machine.devices) {
    context.print(fmt::format("   {}  ({})", found.driver_name, found.source));
  }
  say(context, "Next: mfu peak --measure · mfu explain TRACE · mfu doctor · mfu --help");
  return kGood;
}

}  // namespace

Command demo_command() {
  CommandText text{
      "demo",
      "Why is a training slow, and how much faster can it get?",
      "Runs a small training under mfu run --explain, says why it is slow, follows the advice, "
      "runs it again and shows how much faster it got. It takes well under two minutes, needs "
      "PyTorch and downloads nothing.",
      {{"mfu demo", "the tour"}, {"mfu demo --json", "both runs and the gain, for a script"}}};
  auto add = [](CLI::App&) {};
  return {std::move(text), add, [](Context& context) { return demonstrate(context); }};
}

}  // namespace mfu::app
