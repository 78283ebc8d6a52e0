// Binds the run directory of a process that observes itself.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core.h"

namespace mfu::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

void bind_record(nb::module_& module) {
  module.def(
      "create_run",
      [](const std::string& directory, const std::vector<std::string>& command) {
        RunPlaces places = value_or_raise(create_run(directory, command));
        return nb::make_tuple(places.directory, places.region_folder, places.notes);
      },
      "directory"_a, "command"_a,
      nb::sig(
          "def create_run(directory: str, command: Sequence[str]) -> tuple[str, str, list[str]]"),
      "The run directory, the folder in memory that its processes write to, and what is worth a "
      "warning.");
}

}  // namespace mfu::python
