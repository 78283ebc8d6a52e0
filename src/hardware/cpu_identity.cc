#include "base/text.h"
#include "hardware/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstring>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/prctl.h>

#include "base/file.h"
#endif

namespace mfu {

#if defined(__x86_64__)

namespace {

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned part = 0) {
  Registers answer;
  if (__get_cpuid_count(leaf, part, &answer.a, &answer.b, &answer.c, &answer.d) == 0) return {};
  return answer;
}

bool bit(unsigned word, int number) {
  return ((word >> number) & 1u) != 0;
}

std::string brand_string() {
  char text[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    Registers part = cpuid(0x80000002u + i);
    std::memcpy(text + i * 16, &part, 16);
  }
  return printable(trim(text));
}

// Which registers the operating system saves. Instructions on registers that it does not save cause
// a fault.
unsigned saved_state() {
  if (!bit(cpuid(1).c, 27)) return 0;  // OSXSAVE
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

}  // namespace

CpuIdentity cpu_identity() {
  CpuIdentity cpu;
  Registers maker = cpuid(0);
  char name[13] = {};
  std::memcpy(name, &maker.b, 4);
  std::memcpy(name + 4, &maker.d, 4);
  std::memcpy(name + 8, &maker.c, 4);
  cpu.vendor = std::strcmp(name, "AuthenticAMD") == 0   ? "amd"
               : std::strcmp(name, "GenuineIntel") == 0 ? "intel"
                                                        : printable(name);
  cpu.brand = brand_string();
  Registers basic = cpuid(1);
  Registers extended = cpuid(7);
  Registers more = cpuid(7, 1);
  unsigned state = saved_state();
  bool ymm = (state & 0x6) == 0x6;
  bool zmm = ymm && (state & 0xE0) == 0xE0;
  bool tiles = (state & 0x60000) == 0x60000;
  cpu.sse2 = bit(basic.d, 26);
  cpu.avx = ymm && bit(basic.c, 28);
  cpu.fma = ymm && bit(basic.c, 12);
  cpu.avx2 = ymm && bit(extended.b, 5);
  cpu.avx_vnni = ymm && bit(more.a, 4);
  cpu.avx512f = zmm && bit(extended.b, 16);
  cpu.avx512_vnni = zmm && bit(extended.c, 11);
  cpu.avx512_fp16 = zmm && bit(extended.d, 23);
  cpu.avx512_bf16 = zmm && bit(more.a, 5);
  cpu.amx_bf16 = tiles && bit(extended.d, 22);
  cpu.amx_int8 = tiles && bit(extended.d, 25);
  cpu.amx_fp16 = tiles && bit(more.a, 21);
  return cpu;
}

#elif defined(__aarch64__)

CpuIdentity cpu_identity() {
  CpuIdentity cpu;
  cpu.vendor = "arm";
  auto text_of = [](const char* path) {
    Result<std::string> text = read_file(path, 4u << 20);
    return text.has_value() ? *text : std::string();
  };
  std::string maker =
      text_of("/sys/class/dmi/id/sys_vendor") + text_of("/sys/bus/soc/devices/soc0/soc_id");
  cpu.brand = arm_brand(text_of("/proc/cpuinfo"), maker);
  unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  cpu.neon = (first & (1ul << 1)) != 0;        // HWCAP_ASIMD
  cpu.arm_fp16 = (first & (1ul << 10)) != 0;   // HWCAP_ASIMDHP
  cpu.sdot = (first & (1ul << 20)) != 0;       // HWCAP_ASIMDDP
  cpu.i8mm = (second & (1ul << 13)) != 0;      // HWCAP2_I8MM
  cpu.arm_bf16 = (second & (1ul << 14)) != 0;  // HWCAP2_BF16
  if ((first & (1ul << 22)) != 0) {            // HWCAP_SVE
    constexpr int kSveGetVectorLength = 51;    // PR_SVE_GET_VL
    int length = prctl(kSveGetVectorLength, 0, 0, 0, 0);
    if (length > 0) cpu.sve_bytes = static_cast<unsigned>(length) & 0xffff;
  }
  return cpu;
}

#else

CpuIdentity cpu_identity() {
  return {.brand = "an unknown kind of processor"};
}

#endif

}  // namespace mfu
