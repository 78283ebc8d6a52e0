// Reads and writes whole small files. Large files have their own readers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "mfu/result.h"

namespace mfu {

// The bytes of a regular file. Fails with `io` or `not_found`, with `unsupported` if it is larger
// than `most`, and with `malformed` if it is not a regular file: a pipe would block, and a device
// may have no end.
Result<std::string> read_file(const std::string& path, std::uint64_t most = 64u << 20);

// The same, one block at a time, so that the file is never held as a whole.
Result<void> read_file_blocks(const std::string& path, std::uint64_t most,
                              const std::function<void(std::string_view)>& give);

// The same for a file that a person named. It may be a pipe: `mfu flops <(curl …)`.
Result<std::string> read_named_file(const std::string& path, std::uint64_t most = 64u << 20);

// Makes a folder that only this user can use, or accepts an existing one. In a shared place (/tmp,
// /dev/shm) a folder or link of another user would let them read and change what we write; that
// fails with `io` and names the owner. The parent folder must exist.
Result<void> make_own_folder(const std::string& path);

// Makes the folder of this file, and its parents.
Result<void> make_folder_of(const std::string& path);

// Renames a file that another program wrote to PATH.other, PATH.other-2, …, so that nothing of it
// is lost. Returns the new name. Fails with `io`.
Result<std::string> set_aside(const std::string& path);

// Replaces the file completely or not at all: writes a new one next to it, then renames that. Makes
// the folder if needed.
Result<void> write_file(const std::string& path, std::string_view bytes);

}  // namespace mfu
