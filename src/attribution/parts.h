// What mfu::Parts holds: what was kept of each trace, in memory or in the file that it was read
// from.
#pragma once

#include <string>
#include <vector>

#include "attribution/part.h"
#include "mfu/attribution.h"

namespace mfu {

// Where the ranks of a trace are in a part file that was checked.
struct StoredRanks {
  std::string path;
  std::uint64_t at_byte = 0;
};

struct PartsContent {
  struct Entry {
    TraceOutline outline;
    std::vector<RankPart> ranks;        // if the trace was just read
    std::optional<StoredRanks> stored;  // otherwise, where they are
  };
  std::vector<Entry> traces;  // in the order given
  // Files in folders that turned out to be no traces.
  std::vector<std::string> left_out;
  std::vector<std::string> refused;
  WindowQuestion window;
  bool timeline = false;
};

// Reads a file but leaves its ranks on disk. Fails with `malformed` and the path if the file is
// damaged, truncated or of another version.
Result<PartsContent> read_part_file(const std::string& path);
Result<std::vector<RankPart>> read_stored(const PartsContent::Entry& entry);
Result<std::string> part_file_bytes(const PartsContent& content);
// Decided by its first bytes, or by its name if it is empty.
bool is_part_file(const std::string& path);

}  // namespace mfu
