// The part of NVML that we use, declared here from its documentation, because its headers may not
// be redistributed.
#include <fmt/format.h>

#include <string>

#include "hardware/driver.h"

namespace mfu {

namespace {

using Handle = void*;
constexpr int kNvmlSuccess = 0;
constexpr int kSmClock = 1;  // NVML_CLOCK_SM
constexpr unsigned kMigEnabled = 1;
constexpr unsigned kMostNvmlDevices = 256;

struct Memory {
  unsigned long long total, free, used;
};
struct Pci {  // nvmlPciInfo_t
  char bus_legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};
struct Attributes {  // nvmlDeviceAttributes_t
  unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices,
      compute_slices;
  unsigned long long memory_mb;
};

// The functions by name. A function that this driver does not have is null.
struct Nvml {
  explicit Nvml(const Library& opened) : library(opened) {}
  const Library& library;

  template <typename... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    auto* function = library.symbol<int(Arguments...)>(name);
    return function != nullptr && function(arguments...) == kNvmlSuccess;
  }

  std::string text(const char* name, Handle device) const {
    char buffer[128] = {};
    if (!call(name, device, static_cast<char*>(buffer), static_cast<unsigned>(sizeof buffer)))
      return "";
    buffer[sizeof buffer - 1] = '\0';
    return buffer;
  }
};

void describe(const Nvml& nvml, Handle device, JsonWriter& answer) {
  Memory memory = {};
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory)) {
    answer.member("memory_bytes", static_cast<double>(memory.total));
  }
  unsigned mhz = 0;
  if (nvml.call("nvmlDeviceGetClockInfo", device, kSmClock, &mhz))
    answer.member("clock_hz", mhz * 1e6);
  if (nvml.call("nvmlDeviceGetMaxClockInfo", device, kSmClock, &mhz)) {
    answer.member("clock_most_hz", mhz * 1e6);
  }
  unsigned milliwatts = 0;
  if (nvml.call("nvmlDeviceGetEnforcedPowerLimit", device, &milliwatts) ||
      nvml.call("nvmlDeviceGetPowerManagementLimit", device, &milliwatts)) {
    answer.member("power_limit_w", milliwatts / 1e3);
  }
  Pci pci = {};
  if (nvml.call("nvmlDeviceGetPciInfo_v3", device, &pci)) {
    pci.bus_id[sizeof pci.bus_id - 1] = '\0';
    answer.member("pci", static_cast<const char*>(pci.bus_id));
  }
  answer.member("uuid", nvml.text("nvmlDeviceGetUUID", device));
}

// In MIG mode, programs see the slices of a GPU as devices. The name of a slice is that of the GPU
// with the profile.
bool describe_slices(const Nvml& nvml, Handle gpu, unsigned index, JsonWriter& answer) {
  unsigned current = 0;
  unsigned pending = 0;
  unsigned most = 0;
  if (!nvml.call("nvmlDeviceGetMigMode", gpu, &current, &pending) || current != kMigEnabled)
    return false;
  if (!nvml.call("nvmlDeviceGetMaxMigDeviceCount", gpu, &most)) return false;
  std::string gpu_name = nvml.text("nvmlDeviceGetName", gpu);
  for (unsigned slice = 0; slice < std::min(most, 16u); ++slice) {
    Handle device = nullptr;
    if (!nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", gpu, slice, &device)) continue;
    std::string name = nvml.text("nvmlDeviceGetName", device);
    std::string profile =
        name.find(" MIG ") == std::string::npos ? "" : name.substr(name.find(" MIG ") + 5);
    Attributes attributes = {};
    bool guessed = profile.empty();
    if (guessed && nvml.call("nvmlDeviceGetAttributes_v2", device, &attributes)) {
      profile = fmt::format("{}g.{}gb", attributes.gpu_slices, (attributes.memory_mb + 512) / 1024);
    }
    answer.begin_object();
    answer.member("index", static_cast<double>(index));
    answer.member("name", profile.empty()
                              ? name
                              : gpu_name.substr(0, gpu_name.find(" MIG ")) + " MIG " + profile);
    answer.member("partition", profile);
    if (guessed && !profile.empty()) {
      answer.member("guessed_slices", static_cast<double>(attributes.gpu_slices));
      answer.member("guessed_megabytes", static_cast<double>(attributes.memory_mb));
    }
    describe(nvml, device, answer);
    answer.end_object();
  }
  return true;
}

void ask(const Library& library, JsonWriter& answer) {
  Nvml nvml(library);
  auto* init = library.symbol<int()>("nvmlInit_v2");
  auto* reason = library.symbol<const char*(int)>("nvmlErrorString");
  if (init == nullptr) {
    answer.member("problem",
                  "the library has no nvmlInit_v2: it is not NVML, or older than any we know");
    return;
  }
  if (int status = init(); status != kNvmlSuccess) {
    const char* words = reason == nullptr ? nullptr : reason(status);
    answer.member("problem",
                  fmt::format("nvmlInit failed: {}",
                              words == nullptr ? fmt::format("error {}", status) : words));
    return;
  }
  char version[96] = {};
  if (nvml.call("nvmlSystemGetDriverVersion", static_cast<char*>(version),
                unsigned{sizeof version - 1})) {
    answer.member("driver", static_cast<const char*>(version));
  }
  unsigned count = 0;
  if (!nvml.call("nvmlDeviceGetCount_v2", &count)) {
    answer.member("problem", "nvmlDeviceGetCount failed");
    return;
  }
  answer.key("devices").begin_array();
  for (unsigned index = 0; index < std::min(count, kMostNvmlDevices); ++index) {
    Handle device = nullptr;
    if (!nvml.call("nvmlDeviceGetHandleByIndex_v2", index, &device)) continue;
    if (describe_slices(nvml, device, index, answer)) continue;
    answer.begin_object();
    answer.member("index", static_cast<double>(index));
    answer.member("name", nvml.text("nvmlDeviceGetName", device));
    describe(nvml, device, answer);
    answer.end_object();
  }
  answer.end_array();
}

}  // namespace

Driver nvml_driver() {
  return {"NVML",
          "nvidia",
          "MFU_NVML",
          {"libnvidia-ml.so.1"},
          ask,
          "on a machine with an NVIDIA GPU: install its driver; in a container: start it with the "
          "GPUs (--gpus all)"};
}

}  // namespace mfu
