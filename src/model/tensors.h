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
  std::vector<std::uint64_t> shape;  // as torch: outputs before inputs
  std::uint64_t elements = 0, bytes = 0;
  std::uint64_t from = 0;  // safetensors: the first of its bytes
};

struct TensorFile {
  std::string file, architecture;
  std::vector<TensorInfo> tensors;
  // Where metadata has them.
  std::optional<std::uint64_t> heads, kv_heads, key_dim, value_dim, experts_active, window;
  std::optional<std::uint64_t> layers;
};

Result<ModelSpec> model_of_tensors(const TensorFile& file);

Result<ModelSpec> read_safetensors(const std::string& path);
Result<ModelSpec> read_gguf(const std::string& path);

// From bytes already in hand: what the readers parse, and what fuzzing feeds.
Result<TensorFile> parse_safetensors_header(std::string_view json, std::string_view file);
Result<TensorFile> parse_gguf_header(std::string_view bytes, std::string_view file);

// The product, or nothing where it passes 2^62.
std::optional<std::uint64_t> checked_product(const std::vector<std::uint64_t>& factors);

}  // namespace mfu
