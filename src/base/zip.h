// Bytes packed by zstd in one go, for values that fit into memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mfu/result.h"

namespace mfu {

std::string zipped(std::string_view bytes);

// `malformed` where the bytes are none of zipped()'s, or do not unpack to exactly `size` bytes.
Result<std::string> unzipped(std::string_view bytes, std::uint64_t size);

}  // namespace mfu
