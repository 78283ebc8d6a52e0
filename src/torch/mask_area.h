// How much of an attention mask is attended. A mask is looked at once for each content (storage and
// version), not once for each layer, and only where it lies on the host: nobody waits for a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace mfu::observer {

struct MaskArea {
  std::uint64_t attended = 0;  // of its elements
  std::uint64_t elements = 0;  // all of them
};

// What masks put in place of minus infinity: the lowest number of their type, or one like it.
inline constexpr float kLeftOut = -1e4f;
inline bool is_attended(bool value) {
  return value;
}
template <class Number>
bool is_attended(Number value) {
  return static_cast<float>(value) > kLeftOut;
}

// None: its values are not at hand.
std::optional<MaskArea> area_of_mask(const at::Tensor& mask) noexcept;

}  // namespace mfu::observer
