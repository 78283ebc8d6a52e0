// Opens a vendor's management library at run time, in a child process. If it crashes, hangs or
// lies, the program loses one line of output and goes on.
#pragma once

#include <dlfcn.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mfu/machine.h"

namespace mfu {

// An open library. Symbols are looked up one by one: if an old driver lacks one, only that figure
// is missing.
class Library {
 public:
  explicit Library(const std::string& name)
      : handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  bool open() const { return handle_ != nullptr; }
  template <typename Function>
  Function* symbol(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_;  // never closed, because libraries that have threads do not survive that
};

// The library of one vendor: how to find it, what to ask it (in the child), and how to name it in
// messages.
struct Driver {
  std::string name;                    // "NVML"
  std::string vendor;                  // "nvidia"
  const char* variable;                // environment variable that names another library
  std::vector<std::string> libraries;  // names to try, in this order
  // Fills the open object: "driver", "problem", "devices": [{name, index, …}]. Runs in the child.
  void (*ask)(const Library& library, JsonWriter& answer);
  std::string remedy;  // what to do if the library is missing
};

Driver nvml_driver();
Driver amd_smi_driver();
Driver rocm_smi_driver();

// The answer of one driver. The drivers are asked at the same time.
struct DriverAnswer {
  Probe probe;
  std::vector<FoundDevice> devices;  // not yet looked up in the catalogue
};

std::vector<DriverAnswer> ask_drivers(const std::vector<Driver>& drivers, Diagnostics& diagnostics);

}  // namespace mfu
