// A stand-in for libnvidia-ml.so.1 that the tests load. $MFU_FAKE_MODE says how it behaves. With
// MFU_FAKE_OLD it lacks what old drivers lack.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

bool mode(const char* name) {
  const char* set = std::getenv("MFU_FAKE_MODE");
  return set != nullptr && std::strcmp(set, name) == 0;
}

int copy(char* to, unsigned room, const char* text) {
  if (std::strlen(text) + 1 > room) return 7;  // insufficient size
  std::strcpy(to, text);
  return 0;
}

int gpu = 0;
int slice = 1;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (mode("crash")) std::abort();
  while (mode("hang")) ::pause();
  return mode("init_fails") ? 18 : 0;
}
const char* nvmlErrorString(int) {
  return "Driver/library version mismatch";
}
int nvmlSystemGetDriverVersion(char* text, unsigned room) {
  return copy(text, room, "550.54.15");
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = mode("zero") ? 0 : mode("absurd") ? 4000000000u : 1;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &gpu;
  return index == 0 ? 0 : 2;
}
int nvmlDeviceGetName(void* device, char* name, unsigned room) {
  if (mode("garbage")) return copy(name, room, "\x01\xff\x1b[31mNVI");
  if (mode("unknown")) return copy(name, room, "NVIDIA Z9000");
  if (mode("nameless")) return copy(name, room, "NVIDIA A100-SXM4-40GB");
  if (device == &slice) return copy(name, room, "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
  return copy(name, room, mode("mig") ? "NVIDIA A100-SXM4-40GB" : "NVIDIA H100 80GB HBM3");
}
#ifndef MFU_FAKE_OLD
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  if (mode("errors")) return 999;
  memory[0] = 85520809984ull;
  memory[1] = memory[2] = 0;
  return 0;
}
int nvmlDeviceGetClockInfo(void*, int, unsigned* mhz) {
  *mhz = 1755;
  return mode("errors") ? 3 : 0;
}
int nvmlDeviceGetMaxClockInfo(void*, int, unsigned* mhz) {
  *mhz = 1980;
  return mode("errors") ? 3 : 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 700000;
  return mode("errors") ? 4 : 0;
}
int nvmlDeviceGetPciInfo_v3(void*, void* info) {
  if (mode("errors")) return 15;
  std::memset(info, 0, 68);
  std::strcpy(static_cast<char*>(info) + 36, "00000000:65:00.0");
  return 0;
}
int nvmlDeviceGetUUID(void*, char* uuid, unsigned room) {
  return mode("errors") ? 1 : copy(uuid, room, "GPU-0f1e2d3c");
}
int nvmlDeviceGetMigMode(void*, unsigned* current, unsigned* pending) {
  *current = *pending = mode("mig") || mode("nameless") ? 1 : 0;
  return 0;
}
// Multiprocessors, five kinds of engines, slices of the GPU and of its compute, megabytes.
int nvmlDeviceGetAttributes_v2(void*, void* attributes) {
  const unsigned numbers[] = {14, 1, 0, 0, 0, 0, 1, 1};
  const unsigned long long megabytes = 4864;
  std::memcpy(attributes, numbers, sizeof numbers);
  std::memcpy(static_cast<char*>(attributes) + sizeof numbers, &megabytes, sizeof megabytes);
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 7;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned index, void** device) {
  *device = &slice;
  return index < 2 ? 0 : 6;
}
// GPM: a sample is just a number. Between any two samples the tensor pipes were 50% active.
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &gpu;
  return std::strcmp(uuid, "GPU-0f1e2d3c") == 0 ? 0 : 6;
}
int nvmlGpmQueryDeviceSupport(void*, unsigned* support) {
  if (support[0] != 1) return 25;  // argument version mismatch
  support[1] = mode("ampere") ? 0 : 1;
  return 0;
}
int nvmlGpmSampleAlloc(void** sample) {
  *sample = std::calloc(1, sizeof(long));
  return 0;
}
int nvmlGpmSampleFree(void* sample) {
  std::free(sample);
  return 0;
}
int nvmlGpmSampleGet(void*, void* sample) {
  static long taken = 0;
  if (mode("gpm_hangs")) ::sleep(5);
  if (mode("gpm_gone") && taken > 1) return 15;  // the GPU has fallen off the bus
  *static_cast<long*>(sample) = ++taken;
  return 0;
}
int nvmlGpmMetricsGet(void* get) {
  struct Get {
    unsigned version, count;
    long *before, *after;
    unsigned id;
    int status;
    double value;
  };
  auto* asked = static_cast<Get*>(get);
  if (asked->version != 1 || asked->count != 1 || asked->id != 5) return 2;
  if (*asked->after <= *asked->before) return 2;  // in this order
  asked->status = mode("gpm_blank") ? 3 : 0;
  asked->value = 50;
  return 0;
}
#endif
}
