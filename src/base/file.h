// Whole small files, read and written. Large ones have readers of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mfu/result.h"

namespace mfu {

// The bytes of a file; `io` or `not_found` with the path; `unsupported` where it is larger than
// `most`.
Result<std::string> read_file(const std::string& path, std::uint64_t most = 64u << 20);

// Makes the folder that the file is to stand in, and those above it.
Result<void> make_folder_of(const std::string& path);

// Replaces the file at once or not at all (written beside it, then renamed); makes the folder.
Result<void> write_file(const std::string& path, std::string_view bytes);

}  // namespace mfu
