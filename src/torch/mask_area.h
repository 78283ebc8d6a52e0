// Finds how much of an attention mask is attended. Each content (storage and version) is examined
// once, not once per layer, and only if it is in host memory: nobody waits for a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace mfu::observer {

struct MaskArea {
  std::uint64_t attended = 0;  // how many elements are attended
  std::uint64_t elements = 0;  // all of them
};

// Masks use the lowest number of their type, or a similar one, in place of minus infinity.
inline constexpr float kLeftOut = -1e4f;
inline bool is_attended(bool value) {
  return value;
}
template <class Number>
bool is_attended(Number value) {
  return static_cast<float>(value) > kLeftOut;
}

// Empty if the values cannot be read here.
std::optional<MaskArea> area_of_mask(const at::Tensor& mask) noexcept;

}  // namespace mfu::observer
