// What the sources of the native module mfu._core share: a Result turned into a value or a Python
// exception, and counts of 128 bits as Python integers.
//
//   nanobind::module_ module = …;
//   mfu::python::bind_model(module);
#pragma once

#include <mfu/mfu.h>
#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mfu::python {

// Raises the exception that mfu._errors has for that code.
[[noreturn]] void raise(const Error& error);

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result.has_value()) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

// Sentences of the library, with options named as in Python.
std::vector<std::string> in_python(std::vector<std::string> texts);

// `what` names the argument in the message of an OverflowError.
FlopCount count_of(const nanobind::int_& number, const char* what);
nanobind::object integer_of(FlopCount count);

// The peak that MFU is a fraction of: a given rate, or that of a device by name and type.
struct PeakAsked {
  std::optional<std::string> device;
  std::string precision;
  std::optional<double> flop_per_s;  // of one device; wins over the device's own
  std::string catalog;               // file with a user's own devices; empty: none
};
struct Against {
  Device device;    // without one, only its name
  ChosenPeak peak;  // has a rate
};
Result<Against> against(const PeakAsked& asked);
Result<Precision> precision_of(const std::string& name);
Result<Catalog> catalog_of(const std::string& path);

void bind_model(nanobind::module_& module);
void bind_hardware(nanobind::module_& module);
void bind_record(nanobind::module_& module);
void bind_trace(nanobind::module_& module);
void bind_monitor(nanobind::module_& module);
void bind_mask(nanobind::module_& module);

}  // namespace mfu::python
