// SHA-256 and base64. The content policy of our pages names its script and style by them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace mfu {

// FIPS 180-4.
std::array<std::uint8_t, 32> sha256(std::string_view bytes);
// RFC 4648 section 4, with padding.
std::string base64(std::string_view bytes);

}  // namespace mfu
