#include <fmt/format.h>

#include "commands.h"

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
            "mend the file, or unset the setting 'catalog'"};
  return {"catalogue", true,
          fmt::format("{} devices built in, {} of your own", count, mine->devices().size()), ""};
}

Probe settings_probe(const Context& context) {
  if (!context.settings_problem().empty()) {
    return {"settings", false, context.settings_problem(),
            "mend the file; until then every other command stops here"};
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

Result<int> run(Context& context) {
  Diagnostics diagnostics;  // the probes say the same at more length
  Machine machine = detect_machine(context.catalog(), diagnostics);
  DoctorReport report;
  report.probes = machine.probes;
  for (Probe& probe : probe_parts(context.python())) report.probes.push_back(std::move(probe));
  report.probes.push_back(catalog_probe(context));
  report.probes.push_back(settings_probe(context));
  report.probes.push_back(cache_probe(machine));
  report.probes.push_back(
      {"GPU code", true,
       "NVML, AMD SMI and ROCm SMI are tested against stand-ins that the tests build, not on "
       "hardware",
       ""});
  context.print(context.json() ? to_json(report) : to_text(report, context.style()));
  return kGood;
}

}  // namespace

Command doctor_command() {
  CommandText text{
      "doctor",
      "What works on this machine, and what mends the rest?",
      "Looks for drivers, matrix libraries, PyTorch, hardware counters, settings and the "
      "catalogue. Each "
      "that does not work comes with the command that mends it; a machine without a GPU is fine.",
      {{"mfu doctor", "the whole list"}, {"mfu doctor --json", "for a script"}}};
  return {std::move(text), [](CLI::App&) {}, run};
}

}  // namespace mfu::app
