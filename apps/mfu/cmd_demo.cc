#include <fmt/format.h>

#include <unistd.h>

#include "commands.h"
#include "demo_training.h"
#include "explain_options.h"
#include "progress.h"

namespace mfu::app {

namespace {

void say(const Context& context, std::string_view text) {
  context.print("\n" + inked(text, Ink::bold, context.style()) + "\n");
}

// What keeps the last part from working is said, and the tour goes on.
void explain_training(Context& context) {
  say(context,
      "4. And a training run? A small one is profiled here, on the processor.   mfu explain "
      "trace.json.gz");
  Result<std::string> path = profile_training(context.python());
  if (!path.has_value()) {
    context.print("   left out: " + path.error().message);
    return;
  }
  ExplainOptions options;
  options.device = "this";
  Result<ExplainReport> report = options.explain(context, {*path});
  remove_profile(*path);
  if (report.has_value()) {
    context.print(to_text(*report, context.style()));
  } else {
    context.print("   left out: " + report.error().message);
  }
}

Result<int> run(Context& context, double seconds) {
  if (context.json())
    return fail(ErrorCode::invalid_argument, "mfu demo is for people: it has no --json");
  const TextStyle& style = context.style();
  Diagnostics diagnostics;
  say(context,
      "1. What is here? Drivers are asked, the processor is timed for a few milliseconds.");
  Machine machine = detect_machine(context.catalog(), diagnostics);
  context.warn(diagnostics);
  for (const FoundDevice& found : machine.devices) {
    context.print(fmt::format("   {}  ({})", found.driver_name, found.source));
  }
  say(context,
      "2. What could it do, and what does a matrix multiply really reach?   mfu peak --measure");
  FoundDevice cpu = machine.devices.back();
  Ceiling ceiling;
  {
    ProgressBar bar("measuring");
    ceiling =
        measure_cpu_ceiling(cpu, {.seconds = seconds, .precisions = {}},
                            [&](Fraction done, std::string_view what) { bar.show(done, what); });
  }
  ceiling.conditions = conditions_of(cpu);
  Result<void> stored = store_ceiling(ceiling);
  if (!stored.has_value()) context.warn(stored.error().message);
  if (cpu.device) cpu.device = with_measured_peak(*cpu.device, ceiling);
  machine.devices.back() = cpu;
  std::vector<std::optional<Ceiling>> ceilings(machine.devices.size());
  ceilings.back() = ceiling;
  context.print(to_text(report_machine(machine, ceilings), style));
  say(context,
      "3. And elsewhere? Peaks as drivers name the devices, with their sources.   mfu peak h100");
  context.print(to_text(report_devices(match_devices(context.catalog(), "h100")), style));
  explain_training(context);
  say(context, "Next: mfu explain TRACE · mfu peak --list · mfu doctor · mfu --help");
  return kGood;
}

}  // namespace

Command demo_command() {
  auto seconds = std::make_shared<double>(6);
  CommandText text{"demo",
                   "A short tour of what there is, on this machine",
                   "Detects the devices, measures the processor's ceiling, looks a GPU up, and "
                   "profiles and explains a small training run where there is PyTorch. Nothing is "
                   "downloaded.",
                   {{"mfu demo", "the tour"}}};
  auto add = [seconds](CLI::App& app) {
    app.add_option("--seconds", *seconds, "About how long the measurement may take (default 6)")
        ->type_name("S")
        ->check(CLI::Range(0.1, 600.0));
  };
  return {std::move(text), add, [seconds](Context& context) { return run(context, *seconds); }};
}

}  // namespace mfu::app
