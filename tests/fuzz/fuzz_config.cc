#include <cstdint>

#include "fuzz/need.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto model = mfu::parse_model({reinterpret_cast<const char*>(data), size}, "config.json", {});
  if (model.has_value()) ask_everything(*model, size);
  return 0;
}
