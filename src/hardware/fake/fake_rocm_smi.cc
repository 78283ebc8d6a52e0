// A stand-in for librocm_smi64.so. It has the frequency table of ROCm 6 (flag first), or that of
// ROCm 5 in the mode "earlier".
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {
bool mode(const char* name) {
  const char* set = std::getenv("MFU_FAKE_MODE");
  return set != nullptr && std::strcmp(set, name) == 0;
}
}  // namespace

extern "C" {
int rsmi_init(std::uint64_t) {
  return 0;
}
int rsmi_num_monitor_devices(std::uint32_t* count) {
  *count = 1;
  return 0;
}
int rsmi_dev_name_get(std::uint32_t, char* name, std::size_t) {
  std::strcpy(name, "AMD Instinct MI250X");
  return 0;
}
int rsmi_dev_memory_total_get(std::uint32_t, int, std::uint64_t* bytes) {
  *bytes = 68702699520ull;
  return 0;
}
int rsmi_dev_pci_id_get(std::uint32_t, std::uint64_t* bdf) {
  *bdf = 0x0000c900;
  return 0;
}
int rsmi_dev_power_cap_get(std::uint32_t, std::uint32_t, std::uint64_t* microwatts) {
  *microwatts = 560000000;
  return 0;
}
int rsmi_dev_gpu_clk_freq_get(std::uint32_t, int, void* frequencies) {
  std::uint32_t head[4] = {1, 3, 1, 0};
  std::size_t header = 16;
  if (mode("earlier")) {
    head[0] = 3;
    head[1] = 1;
    header = 8;
  }
  std::uint64_t hertz[3] = {500000000, 800000000, 1700000000};
  std::memcpy(frequencies, head, header);
  std::memcpy(static_cast<char*>(frequencies) + header, hertz, sizeof hertz);
  return 0;
}
}
