// Several files at once: finds the files that a person means, and reads them on a few threads.
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
  bool in_directory = false;  // found in a folder, so it may not be a trace at all
};
// Replaces folders by the traces in them, or, if a folder has none, by its parts.
Result<std::vector<ListedFile>> list_files(const std::vector<std::string>& paths);

// How many threads `options` allow for so many files.
unsigned reading_threads(const ReadOptions& options, std::size_t files);

// Calls `read` for each file on `threads` threads. The options that it gets share the progress.
void read_files(const std::vector<ListedFile>& files, const ReadOptions& options, unsigned threads,
                const std::function<void(std::size_t file, const ReadOptions& options)>& read);

// The order in reports: by rank if each has a rank and no two the same; otherwise as given.
std::vector<std::size_t> order_by_rank(const std::vector<std::optional<std::int64_t>>& ranks);

// Whether this error only means that a folder holds another file next to the traces.
bool is_stranger(const ListedFile& file, const Error& error);

}  // namespace mfu
