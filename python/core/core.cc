#include "core.h"

#include <cmath>

namespace mfu::python {

namespace nb = nanobind;

void raise(const Error& error) {
  nb::object exception =
      nb::module_::import_("mfu._errors")
          .attr("exception_of")(nb::str(std::string(name_of(error.code)).c_str()),
                                nb::str(error.message.c_str()));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
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

Result<ChosenPeak> choose_peak(const PeakChoice& choice) {
  ChosenPeak chosen;
  auto precision = parse_precision(choice.precision);
  if (!precision) {
    return fail(ErrorCode::invalid_argument,
                "dtype '" + choice.precision +
                    "': one of fp64 fp32 tf32 fp16 bf16 fp8 fp6 fp4 int8 int4 was expected");
  }
  if (choice.device) {
    Catalog catalog = MFU_TRY(catalog_of(choice.catalog));
    Device device = MFU_TRY(find_device(catalog, *choice.device));
    chosen.name = device.name;
    chosen.bandwidth = device.bandwidth;
    chosen.memory = device.memory;
    if (const Peak* row = device.peak(*precision)) {
      chosen.peak = row->rate;
      chosen.source = device.name + ", " + choice.precision + " dense: " + row->source;
      if (row->confidence == Confidence::unverified)
        chosen.notes.push_back("the peak is not verified in any source we found");
    } else if (!choice.flop_per_s) {
      return fail(ErrorCode::not_found, device.name + " has no " + choice.precision +
                                            " peak in the catalogue; give peak=, or another dtype");
    }
  }
  if (choice.flop_per_s) {
    if (!(*choice.flop_per_s > 0) || !std::isfinite(*choice.flop_per_s))
      return fail(ErrorCode::invalid_argument, "peak: FLOP/s above 0 were expected");
    chosen.peak = {*choice.flop_per_s};
    chosen.source = "given by the caller";
    if (chosen.name.empty()) chosen.name = "a device of your own";
  }
  return chosen;
}

}  // namespace mfu::python

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);
  module.doc() = "The C++ library behind the package mfu. Use mfu itself: names here may change.";
  mfu::python::bind_model(module);
  mfu::python::bind_hardware(module);
  mfu::python::bind_record(module);
  mfu::python::bind_trace(module);
  mfu::python::bind_monitor(module);
}
