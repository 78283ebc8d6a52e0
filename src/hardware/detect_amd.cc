// AMD SMI and the older ROCm SMI, declared here from their public headers (ROCm/amdsmi
// include/amd_smi/amdsmi.h; rocm_smi.h of 5.2). Only calls are used whose form did not change
// between versions.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "hardware/driver.h"

namespace mfu {

namespace {

using Handle = void*;
constexpr int kSmiSuccess = 0;
constexpr std::uint32_t kMostSmiDevices = 256;

std::string pci_text(std::uint64_t domain, std::uint64_t bus, std::uint64_t device,
                     std::uint64_t function) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain & 0xFFFFFFFF, bus, device, function);
}

void describe_amd_smi(const Library& library, Handle device, std::uint32_t index,
                      JsonWriter& answer) {
  answer.begin_object();
  answer.member("index", static_cast<double>(index));
  // amdsmi_asic_info_t has grown over the versions. Its first field has always been the market
  // name.
  char asic[4096] = {};
  auto* asic_info = library.symbol<int(Handle, void*)>("amdsmi_get_gpu_asic_info");
  if (asic_info != nullptr && asic_info(device, asic) == kSmiSuccess) {
    asic[255] = '\0';
    answer.member("name", static_cast<const char*>(asic));
  }
  std::uint64_t bytes = 0;
  auto* memory = library.symbol<int(Handle, int, std::uint64_t*)>("amdsmi_get_gpu_memory_total");
  if (memory != nullptr && memory(device, 0 /* VRAM */, &bytes) == kSmiSuccess) {
    answer.member("memory_bytes", static_cast<double>(bytes));
  }
  std::uint64_t bdf = 0;  // function 3 bits, device 5, bus 8, domain 48
  auto* pci = library.symbol<int(Handle, std::uint64_t*)>("amdsmi_get_gpu_device_bdf");
  if (pci != nullptr && pci(device, &bdf) == kSmiSuccess) {
    answer.member("pci", pci_text(bdf >> 16, (bdf >> 8) & 0xFF, (bdf >> 3) & 0x1F, bdf & 7));
  }
  char uuid[64] = {};
  unsigned length = sizeof uuid - 1;
  auto* identity = library.symbol<int(Handle, unsigned*, char*)>("amdsmi_get_gpu_device_uuid");
  if (identity != nullptr && identity(device, &length, uuid) == kSmiSuccess) {
    answer.member("uuid", static_cast<const char*>(uuid));
  }
  char partition[32] = {};
  auto* mode =
      library.symbol<int(Handle, char*, std::uint32_t)>("amdsmi_get_gpu_compute_partition");
  if (mode != nullptr && mode(device, partition, sizeof partition - 1) == kSmiSuccess) {
    answer.member("partition", static_cast<const char*>(partition));
  }
  answer.end_object();
}

// The library wants two calls for handles: the first asks how many there are, the second gets them.
template <typename Count>
std::vector<Handle> handles(const Count& count) {
  std::uint32_t number = 0;
  if (count(&number, nullptr) != kSmiSuccess) return {};
  number = std::min(number, kMostSmiDevices);
  std::vector<Handle> all(number);
  if (number == 0 || count(&number, all.data()) != kSmiSuccess) return {};
  all.resize(std::min<std::size_t>(all.size(), number));
  return all;
}

void ask_amd_smi(const Library& library, JsonWriter& answer) {
  auto* init = library.symbol<int(std::uint64_t)>("amdsmi_init");
  auto* sockets = library.symbol<int(std::uint32_t*, Handle*)>("amdsmi_get_socket_handles");
  auto* processors =
      library.symbol<int(Handle, std::uint32_t*, Handle*)>("amdsmi_get_processor_handles");
  if (init == nullptr || sockets == nullptr || processors == nullptr) {
    answer.member("problem", "the library lacks calls that every AMD SMI has");
    return;
  }
  constexpr std::uint64_t kGpus = 1u << 1;
  if (int status = init(kGpus); status != kSmiSuccess) {
    answer.member("problem", fmt::format("amdsmi_init failed: error {}", status));
    return;
  }
  std::uint32_t index = 0;
  answer.key("devices").begin_array();
  for (Handle socket : handles(sockets)) {
    auto of_socket = [&](std::uint32_t* count, Handle* all) {
      return processors(socket, count, all);
    };
    for (Handle device : handles(of_socket)) describe_amd_smi(library, device, index++, answer);
  }
  answer.end_array();
}

// rsmi_frequencies_t has two forms, because ROCm 6 put a deep-sleep flag at its beginning. The
// index of the current frequency must be below the number of frequencies. Read in the wrong form it
// never is, which tells the forms apart.
struct EarlierFrequencies {
  std::uint32_t supported, current;
  std::uint64_t hertz[32];
};
struct Frequencies {
  std::uint32_t deep_sleep, supported, current;
  std::uint64_t hertz[33];
};

template <typename Form>
bool add_clocks(const char* bytes, JsonWriter& answer) {
  Form clocks;
  std::memcpy(&clocks, bytes, sizeof clocks);
  if (clocks.supported == 0 || clocks.supported > 32 || clocks.current >= clocks.supported)
    return false;
  answer.member("clock_hz", static_cast<double>(clocks.hertz[clocks.current]));
  answer.member("clock_most_hz", static_cast<double>(clocks.hertz[clocks.supported - 1]));
  return true;
}

void describe_rocm_smi(const Library& library, std::uint32_t index, JsonWriter& answer) {
  answer.begin_object();
  answer.member("index", static_cast<double>(index));
  char name[256] = {};
  auto* naming = library.symbol<int(std::uint32_t, char*, std::size_t)>("rsmi_dev_name_get");
  if (naming != nullptr && naming(index, name, sizeof name - 1) == kSmiSuccess) {
    answer.member("name", static_cast<const char*>(name));
  }
  std::uint64_t bytes = 0;
  auto* memory =
      library.symbol<int(std::uint32_t, int, std::uint64_t*)>("rsmi_dev_memory_total_get");
  if (memory != nullptr && memory(index, 0 /* VRAM */, &bytes) == kSmiSuccess) {
    answer.member("memory_bytes", static_cast<double>(bytes));
  }
  std::uint64_t bdf = 0;  // domain 32 bits, then bus 8, device 5, function 3
  auto* pci = library.symbol<int(std::uint32_t, std::uint64_t*)>("rsmi_dev_pci_id_get");
  if (pci != nullptr && pci(index, &bdf) == kSmiSuccess) {
    answer.member("pci", pci_text(bdf >> 32, (bdf >> 8) & 0xFF, (bdf >> 3) & 0x1F, bdf & 7));
  }
  std::uint64_t microwatts = 0;
  auto* cap =
      library.symbol<int(std::uint32_t, std::uint32_t, std::uint64_t*)>("rsmi_dev_power_cap_get");
  if (cap != nullptr && cap(index, 0, &microwatts) == kSmiSuccess) {
    answer.member("power_limit_w", static_cast<double>(microwatts) / 1e6);
  }
  alignas(8) char clocks[4096] = {};  // larger than either form
  auto* clock = library.symbol<int(std::uint32_t, int, void*)>("rsmi_dev_gpu_clk_freq_get");
  if (clock != nullptr && clock(index, 0 /* system clock */, clocks) == kSmiSuccess) {
    add_clocks<EarlierFrequencies>(clocks, answer) || add_clocks<Frequencies>(clocks, answer);
  }
  std::uint64_t unique = 0;
  auto* identity = library.symbol<int(std::uint32_t, std::uint64_t*)>("rsmi_dev_unique_id_get");
  if (identity != nullptr && identity(index, &unique) == kSmiSuccess) {
    answer.member("uuid", fmt::format("{:016x}", unique));
  }
  char partition[32] = {};
  auto* mode =
      library.symbol<int(std::uint32_t, char*, std::uint32_t)>("rsmi_dev_compute_partition_get");
  if (mode != nullptr && mode(index, partition, sizeof partition - 1) == kSmiSuccess) {
    answer.member("partition", static_cast<const char*>(partition));
  }
  answer.end_object();
}

void ask_rocm_smi(const Library& library, JsonWriter& answer) {
  auto* init = library.symbol<int(std::uint64_t)>("rsmi_init");
  auto* counting = library.symbol<int(std::uint32_t*)>("rsmi_num_monitor_devices");
  if (init == nullptr || counting == nullptr) {
    answer.member("problem", "the library lacks calls that every ROCm SMI has");
    return;
  }
  std::uint32_t count = 0;
  if (int status = init(0); status != kSmiSuccess) {
    answer.member("problem", fmt::format("rsmi_init failed: error {}", status));
    return;
  }
  if (counting(&count) != kSmiSuccess) {
    answer.member("problem", "rsmi_num_monitor_devices failed");
    return;
  }
  answer.key("devices").begin_array();
  for (std::uint32_t index = 0; index < std::min(count, kMostSmiDevices); ++index) {
    describe_rocm_smi(library, index, answer);
  }
  answer.end_array();
}

constexpr const char* kRemedy =
    "on a machine with an AMD GPU: install ROCm (packages amd-smi-lib, rocm-smi-lib); in a "
    "container: pass "
    "/dev/kfd and /dev/dri";

}  // namespace

Driver amd_smi_driver() {
  return {"AMD SMI",
          "amd",
          "MFU_AMD_SMI",
          {"libamd_smi.so", "/opt/rocm/lib/libamd_smi.so", "libamd_smi.so.26", "libamd_smi.so.25"},
          ask_amd_smi,
          kRemedy};
}

Driver rocm_smi_driver() {
  return {"ROCm SMI",
          "amd",
          "MFU_ROCM_SMI",
          {"librocm_smi64.so", "/opt/rocm/lib/librocm_smi64.so", "librocm_smi64.so.7",
           "librocm_smi64.so.1"},
          ask_rocm_smi,
          kRemedy};
}

}  // namespace mfu
