#include "base/crc32c.h"

#include <array>
#include <cstring>

namespace mfu {

namespace {

// RFC 3720 appendix B.4: the polynomial 0x1EDC6F41, bits reversed.
constexpr std::uint32_t kPolynomial = 0x82f63b78;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[byte] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::string_view bytes) {
  std::uint64_t sum = 0xffffffff;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    sum = __builtin_ia32_crc32di(sum, word);
  }
  auto tail = static_cast<std::uint32_t>(sum);
  for (; at < bytes.size(); ++at) {
    tail = __builtin_ia32_crc32qi(tail, static_cast<unsigned char>(bytes[at]));
  }
  return ~tail;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::string_view bytes) {
  std::uint32_t sum = 0xffffffff;
  for (char byte : bytes)
    sum = (sum >> 8) ^ kTable[(sum ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~sum;
}

std::uint32_t crc32c(std::string_view bytes) {
#if defined(__x86_64__)
  static const bool kHas = __builtin_cpu_supports("sse4.2") != 0;
  if (kHas) return by_instruction(bytes);
#endif
  return crc32c_by_table(bytes);
}

}  // namespace mfu
