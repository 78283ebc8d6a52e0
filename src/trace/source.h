// Where the bytes of a trace come from: a file, standard input or memory, plain, gzip or zstd, told
// apart by their first bytes. All are read as one stream of JSON text.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mfu/result.h"

namespace mfu {

// What is read at a time: small enough to stay in the cache until it is looked at. A fuzzed build
// reads little at a time, so that it meets the edges of windows.
#ifdef MFU_FUZZED
inline constexpr std::size_t kWindowBytes = 512;
#else
inline constexpr std::size_t kWindowBytes = 256u << 10;
#endif

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `most` bytes into `to`; 0 where there are no more. What ends a stream early (a broken
  // archive, a read error) ends it here too, and stands in problem().
  virtual std::size_t read(char* to, std::size_t most) = 0;
  virtual std::optional<std::string> problem() const = 0;
  virtual std::uint64_t file_bytes() const = 0;  // taken from the file so far
  // What problem() says is no damage: it was made to be too large.
  virtual bool refused() const { return false; }
};

// `cancel` may be null; a set one ends a blocking read of a pipe too.
Result<std::unique_ptr<ByteSource>> open_source(const std::string& path,
                                                const std::atomic<bool>* cancel);
std::unique_ptr<ByteSource> memory_source(std::string_view bytes);

}  // namespace mfu
