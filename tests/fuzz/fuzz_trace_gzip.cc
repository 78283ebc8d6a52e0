// Any bytes, taken as an archive, are decoded to the end or to the first fault, and never beyond
// the limit.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Puts the first bytes of gzip or zstd there, so that every input is an archive.
  if (size == 0) return 0;
  std::string bytes =
      data[0] % 2 == 0 ? std::string("\x1f\x8b\x08\x00", 4) : std::string("\x28\xb5\x2f\xfd", 4);
  if (data[0] % 4 < 2) bytes.clear();
  bytes.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::unique_ptr<mfu::ByteSource> source = mfu::memory_source(bytes);
  std::vector<char> window(1 + data[0] * 64u);
  std::uint64_t total = 0;
  constexpr std::uint64_t kMost = 4u << 20;
  while (total < kMost) {
    std::size_t given = source->read(window.data(), window.size());
    if (given > window.size()) __builtin_trap();
    if (given == 0) break;
    total += given;
  }
  (void)source->problem();
  return 0;
}
