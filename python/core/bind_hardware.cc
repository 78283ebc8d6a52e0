// What the hardware could do, and where peak, need and time meet.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "core.h"

namespace mfu::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

// The devices a name fits; `not_found` with near names where it fits none.
std::string devices_json(const std::string& name, const std::string& catalog_path) {
  Catalog catalog = value_or_raise(catalog_of(catalog_path));
  std::vector<Device> devices = name.empty() ? catalog.devices() : match_devices(catalog, name);
  if (devices.empty()) value_or_raise(find_device(catalog, name));
  return to_json(report_devices(devices));
}

// Drivers may take seconds to answer: other Python threads run meanwhile.
std::pair<std::string, std::vector<std::string>> machine_json(const std::string& catalog_path) {
  Catalog catalog = value_or_raise(catalog_of(catalog_path));
  Diagnostics diagnostics;
  nb::gil_scoped_release released;
  Machine machine = detect_machine(catalog, diagnostics);
  std::vector<std::optional<Ceiling>> ceilings;
  for (FoundDevice& found : machine.devices) {
    ceilings.push_back(stored_ceiling(found));
    if (ceilings.back() && found.device && found.device->kind == "cpu")
      found.device = with_measured_peak(*found.device, *ceilings.back());
  }
  return {to_json(report_machine(machine, ceilings)), diagnostics.warnings()};
}

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  if (!(seconds >= 1e-9 && seconds < 3e9))
    raise({ErrorCode::invalid_argument, "seconds: from 1e-9 to 3e9 were expected"});
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

nb::object number_or_none(const std::optional<Fraction>& fraction) {
  return fraction ? nb::object(nb::float_(fraction->value)) : nb::none();
}

nb::dict utilization(const nb::int_& model_flop, double seconds, const PeakChoice& choice,
                     const std::optional<nb::int_>& hardware_flop,
                     std::optional<std::uint64_t> moved_bytes, std::uint64_t devices) {
  if (!choice.device && !choice.flop_per_s)
    raise({ErrorCode::invalid_argument, "an MFU needs a peak: give device= or peak="});
  ChosenPeak peak = value_or_raise(choose_peak(choice));
  UtilizationInput input;
  input.model_flop = count_of(model_flop, "model_flop");
  if (hardware_flop) input.hardware_flop = count_of(*hardware_flop, "hardware_flop");
  if (moved_bytes) input.moved = Bytes{*moved_bytes};
  input.duration = nanoseconds_of(seconds);
  input.devices = devices;
  input.peak = peak.peak;
  input.peak_source = peak.source;
  input.bandwidth = peak.bandwidth;
  Utilization used = value_or_raise(utilization_of(input));
  nb::dict answer;
  answer["mfu"] = nb::float_(used.mfu.value);
  answer["hfu"] = number_or_none(used.hfu);
  answer["mbu"] = number_or_none(used.mbu);
  answer["flop_per_s"] = nb::float_(used.reached.per_s);
  answer["peak_flop_per_s"] = nb::float_(used.peak.per_s);
  answer["peak_source"] = nb::str(used.peak_source.c_str());
  answer["devices"] = nb::int_(used.devices);
  answer["rating"] = used.contradictions.empty()
                         ? nb::object(nb::str(std::string(name_of(used.rating)).c_str()))
                         : nb::none();
  nb::list contradictions;
  for (const std::string& each : used.contradictions) contradictions.append(nb::str(each.c_str()));
  answer["contradictions"] = contradictions;
  return answer;
}

std::string plan_json(const nb::int_& total_flop, double mfu, const PeakChoice& choice,
                      const std::vector<std::uint64_t>& devices, std::optional<double> price,
                      std::optional<double> watts, std::uint64_t parameters,
                      double bytes_per_parameter, std::vector<std::string> assumptions) {
  if (!choice.device && !choice.flop_per_s)
    raise({ErrorCode::invalid_argument, "a plan needs a peak: give device= or peak="});
  ChosenPeak peak = value_or_raise(choose_peak(choice));
  PlanReport report;
  report.total_flop = count_of(total_flop, "total_flop");
  report.device = peak.name;
  report.peak = peak.peak;
  report.peak_source = peak.source;
  report.mfu = {mfu};
  report.assumptions = std::move(assumptions);
  report.assumptions.insert(report.assumptions.end(), peak.notes.begin(), peak.notes.end());
  for (std::uint64_t count : devices) {
    report.plans.push_back(value_or_raise(plan_run({report.total_flop,
                                                    peak.peak,
                                                    {mfu},
                                                    count,
                                                    price,
                                                    watts,
                                                    parameters,
                                                    bytes_per_parameter,
                                                    peak.memory})));
  }
  return to_json(report);
}

}  // namespace

void bind_hardware(nb::module_& module) {
  module.def("devices", &devices_json, "name"_a, "catalog"_a, "JSON of mfu.peak/1.");
  module.def(
      "machine",
      [](const std::string& catalog) {
        auto [json, warnings] = machine_json(catalog);
        return nb::make_tuple(json, warnings);
      },
      "catalog"_a, nb::sig("def machine(catalog: str) -> tuple[str, list[str]]"),
      "JSON of mfu.peak/1 for this machine, and what is worth a warning.");
  module.def(
      "utilization",
      [](const nb::int_& model_flop, double seconds, std::optional<std::string> device,
         std::string dtype, std::optional<double> peak, std::string catalog,
         const std::optional<nb::int_>& hardware_flop, std::optional<std::uint64_t> moved_bytes,
         std::uint64_t devices) {
        return utilization(model_flop, seconds,
                           {std::move(device), std::move(dtype), peak, std::move(catalog)},
                           hardware_flop, moved_bytes, devices);
      },
      "model_flop"_a, "seconds"_a, "device"_a.none(), "dtype"_a, "peak"_a.none(), "catalog"_a,
      "hardware_flop"_a.none(), "moved_bytes"_a.none(), "devices"_a);
  module.def(
      "plan",
      [](const nb::int_& total_flop, double mfu, std::optional<std::string> device,
         std::string dtype, std::optional<double> peak, std::string catalog,
         const std::vector<std::uint64_t>& devices, std::optional<double> price,
         std::optional<double> watts, std::uint64_t parameters, double bytes_per_parameter,
         std::vector<std::string> assumptions) {
        return plan_json(total_flop, mfu,
                         {std::move(device), std::move(dtype), peak, std::move(catalog)}, devices,
                         price, watts, parameters, bytes_per_parameter, std::move(assumptions));
      },
      "total_flop"_a, "mfu"_a, "device"_a.none(), "dtype"_a, "peak"_a.none(), "catalog"_a,
      "devices"_a, "price"_a.none(), "watts"_a.none(), "parameters"_a, "bytes_per_parameter"_a,
      "assumptions"_a, "JSON of mfu.plan/1.");
}

}  // namespace mfu::python
