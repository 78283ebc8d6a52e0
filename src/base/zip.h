// Bytes packed by zstd in one go, for values that fit into memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mfu/result.h"

namespace mfu {

std::string zipped(std::string_view bytes);

// Fails with `malformed` if the bytes were not made by zipped(), or do not unpack to exactly `size`
// bytes.
Result<std::string> unzipped(std::string_view bytes, std::uint64_t size);

}  // namespace mfu
