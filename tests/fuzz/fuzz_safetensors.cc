#include <cstdint>

#include "fuzz/need.h"
#include "model/tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto file = mfu::parse_safetensors_header(bytes, "fuzz.safetensors");
  if (!file.has_value()) return 0;
  auto model = mfu::model_of_tensors(*file);
  if (model.has_value()) ask_everything(*model, size);
  return 0;
}
