// CRC-32C (Castagnoli), by the processor's instruction where it has one.
#pragma once

#include <cstdint>
#include <string_view>

namespace mfu {

std::uint32_t crc32c(std::string_view bytes);
// The same by table, on every processor.
std::uint32_t crc32c_by_table(std::string_view bytes);

}  // namespace mfu
