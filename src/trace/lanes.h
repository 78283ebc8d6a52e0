// Sixteen bytes of text in a register: SSE2, which every x86-64 has, or NEON, which every AArch64
// has. On other machines MFU_LANES is not defined.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#define MFU_LANES
#elif defined(__aarch64__)
#include <arm_neon.h>
#define MFU_LANES
#endif

namespace mfu {

#if defined(__SSE2__)
using Stride = __m128i;
inline Stride load_stride(const char* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
inline Stride equal(Stride a, Stride b) {
  return _mm_cmpeq_epi8(a, b);
}
inline Stride equal(Stride a, char c) {
  return equal(a, _mm_set1_epi8(c));
}
inline Stride either(Stride a, Stride b) {
  return _mm_or_si128(a, b);
}
inline Stride with_bits(Stride a, char bits) {
  return _mm_or_si128(a, _mm_set1_epi8(bits));
}
inline Stride between(Stride a, char first, char last) {
  Stride above = _mm_sub_epi8(a, _mm_set1_epi8(first));
  return _mm_cmpeq_epi8(_mm_min_epu8(above, _mm_set1_epi8(static_cast<char>(last - first))), above);
}
// Makes one bit per byte.
inline std::uint32_t bits_of(Stride hits) {
  return static_cast<std::uint32_t>(_mm_movemask_epi8(hits));
}
#elif defined(__aarch64__)
using Stride = uint8x16_t;
inline Stride load_stride(const char* at) {
  return vld1q_u8(reinterpret_cast<const std::uint8_t*>(at));
}
inline Stride equal(Stride a, Stride b) {
  return vceqq_u8(a, b);
}
inline Stride equal(Stride a, char c) {
  return vceqq_u8(a, vdupq_n_u8(static_cast<std::uint8_t>(c)));
}
inline Stride either(Stride a, Stride b) {
  return vorrq_u8(a, b);
}
inline Stride with_bits(Stride a, char bits) {
  return vorrq_u8(a, vdupq_n_u8(static_cast<std::uint8_t>(bits)));
}
inline Stride between(Stride a, char first, char last) {
  Stride above = vsubq_u8(a, vdupq_n_u8(static_cast<std::uint8_t>(first)));
  return vcleq_u8(above, vdupq_n_u8(static_cast<std::uint8_t>(last - first)));
}
// Makes one bit per byte: each byte keeps the bit of its place, and each half is summed.
inline std::uint32_t bits_of(Stride hits) {
  constexpr std::uint8_t kPlaces[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  Stride places = vandq_u8(hits, vld1q_u8(kPlaces));
  return vaddv_u8(vget_low_u8(places)) | static_cast<std::uint32_t>(vaddv_u8(vget_high_u8(places)))
                                             << 8;
}
#endif

}  // namespace mfu
