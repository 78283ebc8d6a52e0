// Binds what hardware could do, and what needs a peak, FLOPs and time together.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "core.h"

namespace mfu::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

// The devices that match a name. If none does, it fails with `not_found` and names similar ones.
std::string devices_json(const std::string& name, const std::string& catalog_path) {
  Catalog catalog = value_or_raise(catalog_of(catalog_path));
  std::vector<Device> devices = name.empty() ? catalog.devices() : match_devices(catalog, name);
  if (devices.empty()) value_or_raise(find_device(catalog, name));
  return to_json(report_devices(devices), Voice::python);
}

// Drivers may take seconds to answer. Other Python threads run meanwhile.
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
  return {to_json(report_machine(machine, ceilings), Voice::python),
          in_python(diagnostics.warnings())};
}

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  if (!(seconds >= 1e-9 && seconds < 3e9))
    raise({ErrorCode::invalid_argument, "seconds: from 1e-9 to 3e9 were expected"});
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

nb::object number_or_none(const std::optional<Fraction>& fraction) {
  return fraction ? nb::object(nb::float_(fraction->value)) : nb::none();
}

nb::dict utilization_dict(const Utilization& used, const ChosenPeak& peak) {
  nb::dict answer;
  answer["mfu"] = nb::float_(used.mfu.value);
  answer["hfu"] = number_or_none(used.hfu);
  answer["mbu"] = number_or_none(used.mbu);
  answer["flop_per_s"] = nb::float_(used.reached.per_s);
  answer["peak_flop_per_s"] = nb::float_(used.peak.per_s);
  answer["peak_source"] = nb::str(peak.source.c_str());
  answer["peak_dtype"] =
      peak.against ? nb::object(nb::str(name_of(*peak.against).data())) : nb::none();
  answer["peak_reason"] = nb::str(name_of(peak.reason).data());
  answer["complete"] = nb::bool_(used.complete);
  answer["devices"] = nb::int_(used.devices);
  answer["rating"] =
      used.contradictions.empty() ? nb::object(nb::str(name_of(used.rating).data())) : nb::none();
  nb::list contradictions;
  for (const Note& each : used.contradictions)
    contradictions.append(nb::str(words_of(each, Voice::python).c_str()));
  answer["contradictions"] = contradictions;
  return answer;
}

nb::dict utilization(const nb::int_& model_flop, double seconds, const PeakAsked& asked,
                     const std::optional<nb::int_>& hardware_flop,
                     std::optional<std::uint64_t> moved_bytes, std::uint64_t devices) {
  Against found = value_or_raise(against(asked));
  TypedWork work{.model_flop = count_of(model_flop, "model_flop"), .peak = found.peak.rate};
  if (hardware_flop) work.hardware_flop = count_of(*hardware_flop, "hardware_flop");
  UtilizationInput input{.work = {work},
                         .duration = nanoseconds_of(seconds),
                         .devices = devices,
                         .bandwidth = found.device.bandwidth};
  if (moved_bytes) input.moved = Bytes{*moved_bytes};
  return utilization_dict(value_or_raise(utilization_of(input)), found.peak);
}

// This machine's processor, with its measured clock if there is one.
std::optional<Device> processor() {
  FoundDevice found = detect_cpu();
  std::optional<Ceiling> ceiling = stored_ceiling(found);
  return ceiling && found.device ? with_measured_peak(*found.device, *ceiling) : found.device;
}

// The peaks that the counts of a process are compared with. They are looked up once and used often.
struct Peaks {
  std::optional<Device> device;
  PeakQuestion question;
  bool tf32_matmul = false, tf32_convolution = false;

  ChosenPeak choose(const std::string& type, bool convolution) const {
    PeakQuestion asked = question;
    asked.device = device ? &*device : nullptr;
    return choose_peak(asked, type, {tf32_matmul, tf32_convolution, convolution ? 1.0 : 0.0});
  }
};

// Data type, whether in convolutions, model FLOPs and hardware FLOPs.
using CountedWork = std::vector<std::tuple<std::string, bool, nb::int_, nb::int_>>;

nb::object utilization_of_counted(const Peaks& peaks, const CountedWork& counted, double seconds) {
  UtilizationInput input{.duration = nanoseconds_of(seconds)};
  ChosenPeak most;
  FlopCount largest;
  for (const auto& [type, convolution, model, hardware] : counted) {
    ChosenPeak chosen = peaks.choose(type, convolution);
    FlopCount flop = count_of(model, "model_flop");
    input.work.push_back({flop, count_of(hardware, "hardware_flop"), chosen.rate});
    if (flop < largest) continue;
    largest = flop;
    most = chosen;
  }
  Result<Utilization> used = utilization_of(input);
  if (!used.has_value()) return nb::none();
  return utilization_dict(*used, most);
}

void bind_peaks(nb::module_& module) {
  nb::class_<Peaks>(module, "Peaks", "The peak that each data type is compared with.")
      .def(
          "__init__",
          [](Peaks* self, const std::optional<std::string>& device,
             const std::optional<std::string>& dtype, std::optional<double> peak,
             const std::string& catalog, bool tf32_matmul, bool tf32_convolution,
             std::uint64_t sharers, const std::string& architecture,
             std::optional<std::uint32_t> units, std::optional<std::uint64_t> memory) {
            Peaks made{.tf32_matmul = tf32_matmul, .tf32_convolution = tf32_convolution};
            if (peak) made.question.given = FlopRate{*peak};
            if (dtype) made.question.precision = value_or_raise(precision_of(*dtype));
            if (device) {
              DeviceTraits traits{.name = *device, .architecture = architecture, .units = units};
              if (memory) traits.memory = Bytes{*memory};
              made.device =
                  value_or_raise(identify_device(value_or_raise(catalog_of(catalog)), traits));
            } else if (!peak) {
              made.device = processor();
              made.question.sharers = sharers;
            }
            new (self) Peaks(std::move(made));
          },
          "device"_a.none() = nb::none(), "dtype"_a.none() = nb::none(),
          "peak"_a.none() = nb::none(), "catalog"_a = "", "tf32_matmul"_a = false,
          "tf32_convolution"_a = false, "sharers"_a = 1, "architecture"_a = "",
          "units"_a.none() = nb::none(), "memory"_a.none() = nb::none(),
          "The peaks of a device as its driver names it, or a given rate. Without both: those of "
          "this machine's processor, divided among so many ranks.")
      .def(
          "choose",
          [](const Peaks& self, const std::string& type, bool convolution) {
            ChosenPeak chosen = self.choose(type, convolution);
            nb::object rate = chosen.rate ? nb::object(nb::float_(chosen.rate->per_s)) : nb::none();
            return nb::make_tuple(rate, std::string(name_of(chosen.reason)), chosen.source);
          },
          "dtype"_a, "convolution"_a = false,
          nb::sig("def choose(self, dtype: str, convolution: bool = False) -> tuple[float | None, "
                  "str, str]"),
          "Rate, or None; why; source.")
      .def_prop_ro(
          "bandwidth",
          [](const Peaks& self) -> std::optional<double> {
            if (!self.device || !self.device->bandwidth) return std::nullopt;
            return self.device->bandwidth->per_s;
          },
          "Bytes per second of its memory, if known.")
      .def("utilization", &utilization_of_counted, "counted"_a, "seconds"_a,
           nb::sig("def utilization(self, counted: list[tuple[str, bool, int, int]], seconds: "
                   "float) -> dict | None"),
           "Compares each type with its own peak. None if no type has one.");
  module.def(
      "of_peak", [](double flop_per_s, double peak) { return of_peak({flop_per_s}, {peak}).value; },
      "flop_per_s"_a, "peak"_a);
}

std::string plan_json(const nb::int_& total_flop, double mfu, const PeakAsked& asked,
                      const std::vector<std::uint64_t>& devices, std::optional<double> price,
                      std::optional<double> watts, std::uint64_t parameters,
                      double bytes_per_parameter, std::vector<std::string> assumptions) {
  Against found = value_or_raise(against(asked));
  PlanReport report;
  report.total_flop = count_of(total_flop, "total_flop");
  report.device = found.device.name;
  report.peak = found.peak;
  report.mfu = {mfu};
  report.assumptions = std::move(assumptions);
  for (std::uint64_t count : devices) {
    report.plans.push_back(value_or_raise(plan_run({report.total_flop,
                                                    *found.peak.rate,
                                                    {mfu},
                                                    count,
                                                    price,
                                                    watts,
                                                    parameters,
                                                    bytes_per_parameter,
                                                    found.device.memory})));
  }
  return to_json(report);
}

}  // namespace

void bind_hardware(nb::module_& module) {
  bind_peaks(module);
  nb::class_<PeakAsked>(module, "PeakAsked", "The peak that an MFU is a fraction of.")
      .def(nb::init<std::optional<std::string>, std::string, std::optional<double>, std::string>(),
           "device"_a.none(), "dtype"_a, "peak"_a.none(), "catalog"_a);
  module.def("devices", &devices_json, "name"_a, "catalog"_a, "JSON of mfu.peak/1.");
  module.def("machine", &machine_json, "catalog"_a,
             "The JSON mfu.peak/1 of this machine, and the warnings.");
  module.def("utilization", &utilization, "model_flop"_a, "seconds"_a, "against"_a,
             "hardware_flop"_a.none(), "moved_bytes"_a.none(), "devices"_a);
  module.def("plan", &plan_json, "total_flop"_a, "mfu"_a, "against"_a, "devices"_a,
             "price"_a.none(), "watts"_a.none(), "parameters"_a, "bytes_per_parameter"_a,
             "assumptions"_a, "JSON of mfu.plan/1.");
}

}  // namespace mfu::python
