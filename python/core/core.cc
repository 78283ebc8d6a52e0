#include "core.h"

#include <nanobind/stl/string.h>

#include <cmath>

namespace mfu::python {

namespace nb = nanobind;

void raise(const Error& error) {
  nb::object exception =
      nb::module_::import_("mfu._errors")
          .attr("exception_of")(nb::str(std::string(name_of(error.code)).c_str()),
                                nb::str(in_voice(error.message, Voice::python).c_str()));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

std::vector<std::string> in_python(std::vector<std::string> texts) {
  for (std::string& each : texts) each = in_voice(each, Voice::python);
  return texts;
}

FlopCount count_of(const nb::int_& number, const char* what) {
  nb::int_ zero(0);
  nb::object high = number >> nb::int_(64);
  nb::object low = number & nb::int_(~0ull);
  unsigned long long most = ~0ull;
  if (number < zero || high > nb::int_(most)) {
    raise({ErrorCode::invalid_argument,
           std::string(what) + ": a whole number from 0 to 2^128 - 1 was expected"});
  }
  return FlopCount::from_halves(nb::cast<std::uint64_t>(high), nb::cast<std::uint64_t>(low));
}

nb::object integer_of(FlopCount count) {
  nb::object low = nb::int_(count.low());
  if (count.high() == 0) return low;
  return (nb::object(nb::int_(count.high())) << nb::int_(64)) | low;
}

Result<Catalog> catalog_of(const std::string& path) {
  if (path.empty()) return Catalog::builtin();
  Catalog mine = MFU_TRY(Catalog::open(path));
  return Catalog::builtin().with(mine);
}

Result<Precision> precision_of(const std::string& name) {
  std::optional<Precision> precision = parse_precision(name);
  if (precision) return *precision;
  std::string names;
  for (Precision each : all_precisions()) (names += ' ') += name_of(each);
  return fail(ErrorCode::invalid_argument,
              "dtype '" + name + "': one of" + names + " was expected");
}

Result<Against> against(const PeakAsked& asked) {
  Against found;
  PeakQuestion question;
  Precision precision = MFU_TRY(precision_of(asked.precision));
  if (asked.device) {
    Catalog catalog = MFU_TRY(catalog_of(asked.catalog));
    found.device = MFU_TRY(find_device(catalog, *asked.device));
    question.device = &found.device;
  } else {
    found.device.name = "a device of your own";
  }
  if (asked.flop_per_s) {
    if (!(*asked.flop_per_s > 0) || !std::isfinite(*asked.flop_per_s))
      return fail(ErrorCode::invalid_argument, "peak: FLOP/s above 0 were expected");
    question.given = FlopRate{*asked.flop_per_s};
  }
  found.peak = choose_peak(question, name_of(precision));
  if (found.peak.rate) return found;
  if (!asked.device)
    return fail(ErrorCode::invalid_argument, "no peak, no MFU: give device= or peak=");
  return fail(ErrorCode::not_found,
              found.device.name + " has no peak for " + asked.precision +
                  " in the catalogue, nor for a wider type; give peak=, or another dtype");
}

}  // namespace mfu::python

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);
  module.doc() = "The C++ library behind the package mfu. Use mfu itself: names here may change.";
  module.def("in_voice",
             [](const std::string& text) { return mfu::in_voice(text, mfu::Voice::python); });
  mfu::python::bind_model(module);
  mfu::python::bind_hardware(module);
  mfu::python::bind_record(module);
  mfu::python::bind_trace(module);
  mfu::python::bind_monitor(module);
}
