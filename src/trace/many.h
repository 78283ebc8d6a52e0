// Several files at once: which ones a person means, and each read on a thread of a few.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace mfu {

inline constexpr std::string_view kPartEnding = ".mfu-part";

struct ListedFile {
  std::string path;
  bool in_directory = false;  // nobody named it: it may be no trace at all
};
// Directories are replaced by the traces in them, or where there are none by the parts.
Result<std::vector<ListedFile>> list_files(const std::vector<std::string>& paths);

// How many threads `options` allow for so many files.
unsigned reading_threads(const ReadOptions& options, std::size_t files);

// Calls `read` for each file, with options that share progress, on `threads` threads.
void read_files(const std::vector<ListedFile>& files, const ReadOptions& options, unsigned threads,
                const std::function<void(std::size_t file, const ReadOptions& options)>& read);

// The order of reports: by rank where each has one and no two the same, else as given.
std::vector<std::size_t> order_by_rank(const std::vector<std::optional<std::int64_t>>& ranks);

// Whether this failure only says that a folder holds something else beside the traces.
bool is_stranger(const ListedFile& file, const Error& error);

}  // namespace mfu
