// What mfu::Parts holds: what was kept of each trace, in memory or in the file it was read from.
#pragma once

#include <string>
#include <vector>

#include "attribution/part.h"
#include "mfu/attribution.h"

namespace mfu {

// Where the ranks of a trace are in a file that was read and found good.
struct StoredRanks {
  std::string path;
  std::uint64_t at_byte = 0;
};

struct PartsContent {
  struct Entry {
    TraceOutline outline;
    std::vector<RankPart> ranks;        // of a trace that was read just now
    std::optional<StoredRanks> stored;  // … or where they are
  };
  std::vector<Entry> traces;  // as given
  // Of files in folders that turned out to be no traces.
  std::vector<std::string> left_out;
  std::vector<std::string> refused;
  WindowQuestion window;
  bool timeline = false;
};

// A file's content, its ranks left where they are. `malformed` with the path where it is damaged,
// truncated or of another version.
Result<PartsContent> read_part_file(const std::string& path);
Result<std::vector<RankPart>> read_stored(const PartsContent::Entry& entry);
Result<std::string> part_file_bytes(const PartsContent& content);
// By its first bytes, or its name where it has none.
bool is_part_file(const std::string& path);

}  // namespace mfu
