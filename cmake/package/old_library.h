// For the prebuilt observers, included before all else: torch's headers take std::bit_cast for
// granted where the compiler is new; the C++ library of Debian 11 lacks it.
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
