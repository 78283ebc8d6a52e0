// Makes a model from the shapes of its tensors if there is no config. Every matrix is counted. What
// shapes do not show is left out, so the model is marked as a lower bound.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mfu/model.h"

namespace mfu {

struct TensorInfo {
  std::string name;
  std::vector<std::uint64_t> shape;  // as in torch: outputs before inputs
  std::uint64_t elements = 0, bytes = 0;
  std::uint64_t from = 0;  // in safetensors: the position of its first byte
};

struct TensorFile {
  std::string file, architecture;
  std::vector<TensorInfo> tensors;
  // From metadata, if it has them.
  std::optional<std::uint64_t> heads, kv_heads, key_dim, value_dim, experts_active, window;
  std::optional<std::uint64_t> layers;
};

Result<ModelSpec> model_of_tensors(const TensorFile& file);

Result<ModelSpec> read_safetensors(const std::string& path);
Result<ModelSpec> read_gguf(const std::string& path);

// For bytes that are in memory. The readers use it to parse, and the fuzz targets call it.
Result<TensorFile> parse_safetensors_header(std::string_view json, std::string_view file);
Result<TensorFile> parse_gguf_header(std::string_view bytes, std::string_view file);

// The product. None if it is more than 2^62.
std::optional<std::uint64_t> checked_product(const std::vector<std::uint64_t>& factors);

}  // namespace mfu
