// Sums the rows of a mask in host memory.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "monitor.h"

namespace mfu::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

// How many rows hold a token, how many tokens they hold, and the sum of the squares.
template <typename T>
std::vector<std::uint64_t> sums_of(const nb::ndarray<nb::ro, nb::device::cpu>& mask) {
  const T* data = static_cast<const T*>(mask.data());
  std::uint64_t sequences = 0, tokens = 0, squares = 0;
  for (std::size_t row = 0; row < mask.shape(0); ++row) {
    std::uint64_t length = 0;
    const T* at = data + static_cast<std::int64_t>(row) * mask.stride(0);
    if (mask.stride(1) == 1) {
      for (std::size_t i = 0; i < mask.shape(1); ++i) length += at[i] != T(0);
    } else {
      for (std::size_t i = 0; i < mask.shape(1); ++i)
        length += at[static_cast<std::int64_t>(i) * mask.stride(1)] != T(0);
    }
    sequences += length != 0;
    tokens += length;
    squares += length * length;
  }
  return {sequences, tokens, squares, mask.shape(1)};
}

std::vector<std::uint64_t> mask_sums(const nb::ndarray<nb::ro, nb::device::cpu>& mask) {
  if (mask.ndim() != 2) {
    raise({ErrorCode::invalid_argument,
           "a mask of " + std::to_string(mask.ndim()) +
               " dimensions: one row a sequence, one column a token was expected"});
  }
  switch (mask.dtype().bits) {
    case 8:
      return sums_of<std::uint8_t>(mask);
    case 16:
      return sums_of<std::uint16_t>(mask);
    case 32:
      return mask.dtype() == nb::dtype<float>() ? sums_of<float>(mask)
                                                : sums_of<std::uint32_t>(mask);
    case 64:
      return mask.dtype() == nb::dtype<double>() ? sums_of<double>(mask)
                                                 : sums_of<std::uint64_t>(mask);
    default:
      raise({ErrorCode::unsupported, "a mask of a data type that is no plain number"});
  }
}

}  // namespace

void bind_mask(nb::module_& module) {
  module.def("mask_sums", &mask_sums, "mask"_a,
             "Rows with tokens, tokens, squares, width of a mask in host memory.");
}

}  // namespace mfu::python
