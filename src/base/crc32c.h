// CRC-32C (Castagnoli), the checksum of RFC 3720 and of TensorBoard's files.
#pragma once

#include <cstdint>
#include <string_view>

namespace mfu {

// The checksum of `bytes`, continued from `before`, the checksum of the bytes in front of them.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

}  // namespace mfu
