// A stand-in for libamd_smi.so with two sockets. $MFU_FAKE_MODE says how it behaves.
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {
bool mode(const char* name) {
  const char* set = std::getenv("MFU_FAKE_MODE");
  return set != nullptr && std::strcmp(set, name) == 0;
}
int things[2] = {0, 1};
}  // namespace

extern "C" {
int amdsmi_init(std::uint64_t) {
  return mode("init_fails") ? 34 : 0;
}
int amdsmi_get_socket_handles(std::uint32_t* count, void** handles) {
  if (handles != nullptr) {
    for (std::uint32_t i = 0; i < *count && i < 2; ++i) handles[i] = &things[i];
  }
  *count = mode("zero") ? 0 : 2;
  return 0;
}
int amdsmi_get_processor_handles(void* socket, std::uint32_t* count, void** handles) {
  if (handles != nullptr && *count > 0) handles[0] = socket;
  *count = 1;
  return 0;
}
int amdsmi_get_gpu_asic_info(void*, void* info) {
  std::strcpy(static_cast<char*>(info), "AMD Instinct MI300X");
  return 0;
}
int amdsmi_get_gpu_memory_total(void*, int, std::uint64_t* bytes) {
  *bytes = 206141652992ull;
  return 0;
}
int amdsmi_get_gpu_device_bdf(void* device, std::uint64_t* bdf) {
  *bdf = (0ull << 16) | ((device == &things[0] ? 0xc9ull : 0xc1ull) << 8);
  return 0;
}
int amdsmi_get_gpu_compute_partition(void* device, char* text, std::uint32_t room) {
  if (room < 4) return 1;
  std::strcpy(text, device == &things[1] ? "CPX" : "SPX");
  return 0;
}
}
