// Whole small files, read and written. Large ones have readers of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "mfu/result.h"

namespace mfu {

// The bytes of a regular file; `io` or `not_found` with the path; `unsupported` where it is larger
// than `most`; `malformed` where it is no regular file: a pipe would block, a device may have no
// end.
Result<std::string> read_file(const std::string& path, std::uint64_t most = 64u << 20);

// The same a block at a time, none of them held.
Result<void> read_file_blocks(const std::string& path, std::uint64_t most,
                              const std::function<void(std::string_view)>& give);

// The same of a file that a person named, which may be a pipe: `mfu flops <(curl …)`.
Result<std::string> read_named_file(const std::string& path, std::uint64_t most = 64u << 20);

// Makes a folder for this user alone, or takes one that is: in a shared place (/tmp, /dev/shm)
// somebody else's folder or link would let them read and change what we write. `io` says whose it
// is. The folder above must be there.
Result<void> make_own_folder(const std::string& path);

// Makes the folder that the file is to stand in, and those above it.
Result<void> make_folder_of(const std::string& path);

// Renames a file that somebody else wrote, so that nothing of it is lost: PATH.other, PATH.other-2,
// … Gives its new name. `io` where it cannot be renamed.
Result<std::string> set_aside(const std::string& path);

// Replaces the file at once or not at all (written beside it, then renamed); makes the folder.
Result<void> write_file(const std::string& path, std::string_view bytes);

}  // namespace mfu
