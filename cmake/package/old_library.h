// For the prebuilt observers, included before everything else. With a new compiler, torch's headers
// assume that std::bit_cast exists, but the C++ library of Debian 11 does not have it.
#pragma once

#include <bit>

#ifndef __cpp_lib_bit_cast
namespace std {
template <typename To, typename From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}
}  // namespace std
#endif
