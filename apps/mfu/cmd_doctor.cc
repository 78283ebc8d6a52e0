#include <fmt/format.h>

#include "commands.h"
#include "selftest.h"

namespace mfu::app {

namespace {

Probe catalog_probe(const Context& context) {
  const std::string& path = context.settings().value("catalog");
  std::size_t count = Catalog::builtin().devices().size();
  if (path.empty())
    return {"catalogue", true, fmt::format("{} devices built in, none of your own", count), ""};
  Result<Catalog> mine = Catalog::open(path);
  if (!mine.has_value())
    return {"catalogue", false, mine.error().message,
            "correct the file, or remove the setting 'catalog'"};
  return {"catalogue", true,
          fmt::format("{} devices built in, {} of your own", count, mine->devices().size()), ""};
}

Probe settings_probe(const Context& context) {
  if (!context.settings_problem().empty()) {
    return {"settings", false, context.settings_problem(),
            "correct the file; until then every other command stops with this error"};
  }
  return {"settings", true, settings_path(), ""};
}

Probe cache_probe(const Machine& machine) {
  for (const FoundDevice& found : machine.devices) {
    if (stored_ceiling(found)) {
      return {"measured ceilings", true, "kept in " + cache_directory(), ""};
    }
  }
  return {"measured ceilings", false, "none yet for this machine", "mfu peak --measure"};
}

struct DoctorOptions {
  bool selftest = false, retired = false;
  std::string output;
  std::vector<std::string> command;
};

Result<int> run(Context& context, const DoctorOptions& options) {
  if (!options.retired && !options.command.empty()) {
    return fail(ErrorCode::invalid_argument,
                "there is one argument too many: " + options.command.front());
  }
  if (options.retired && options.command.empty()) {
    return fail(ErrorCode::invalid_argument,
                "--retired needs a command: mfu doctor --retired -- COMMAND");
  }
  if (options.retired) return count_retired(context, options.command);
  if (options.selftest) return become_selftest(context, options.output);
  if (!options.output.empty()) {
    return fail(ErrorCode::invalid_argument, "--output needs --selftest");
  }
  Diagnostics diagnostics;  // not printed: the probes say the same in more detail
  Machine machine = detect_machine(context.catalog(), diagnostics);
  DoctorReport report;
  report.probes = machine.probes;
  for (Probe& probe : probe_parts(context.python())) report.probes.push_back(std::move(probe));
  report.probes.push_back(catalog_probe(context));
  report.probes.push_back(settings_probe(context));
  report.probes.push_back(cache_probe(machine));
  report.probes.push_back(
      {"GPU code", true,
       "NVML, AMD SMI and ROCm SMI are tested with libraries that imitate them, not on hardware",
       ""});
  context.print(context.json() ? to_json(report) : to_text(report, context.style()));
  return kGood;
}

}  // namespace

Command doctor_command() {
  CommandText text{"doctor",
                   "What works on this machine, and how can the rest be fixed?",
                   "Looks for drivers, matrix libraries, PyTorch, hardware counters, settings and "
                   "the catalogue. Whatever does not work is shown with the command that fixes it. "
                   "A machine without a GPU is fine.\n\n"
                   "--selftest runs programs whose answer is known on this machine's device: FLOPs "
                   "worked out by hand, times taken by the device's own events, a profiled window. "
                   "It says where mfu differs.",
                   {{"mfu doctor", "the whole list"},
                    {"mfu doctor --json", "for a script"},
                    {"mfu doctor --selftest --output selftest.json",
                     "check mfu on this machine's device; attach the file to a bug report"}}};
  auto options = std::make_shared<DoctorOptions>();
  auto add = [options](CLI::App& app) {
    app.add_flag("--selftest", options->selftest,
                 "Run programs whose answer is known and check what mfu says about them; exit with "
                 "status 1 if a check failed");
    add_value(app, "--output", "PATH", options->output,
              "With --selftest: also write the result to this file");
    app.add_flag("--retired", options->retired,
                 "Run a command and print how many FLOPs the processor's own counters saw");
    add_value(app, "COMMAND", "COMMAND", options->command, "With --retired: the command, after --");
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
