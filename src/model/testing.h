// For tests only: reads models by the name of a shared config, or from JSON.
#pragma once

#include <string>

#include "mfu/model.h"

namespace mfu {

inline const std::string kShared = MFU_SHARED_DIR;

inline Result<ModelSpec> read(const std::string& name, const ConfigOptions& options = {}) {
  return read_model(kShared + "/configs/" + name, options);
}

inline Result<ModelSpec> parse(std::string_view json, const ConfigOptions& options = {}) {
  return parse_model(json, "config.json", options);
}

}  // namespace mfu
