// The bytes of a trace, from a file, from standard input or from memory. They may be plain, gzip or
// zstd, which the first bytes tell. All are read as one stream of JSON text.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mfu/result.h"

namespace mfu {

// How much is read at a time: little enough to stay in the cache until it is processed. A build for
// fuzzing reads very little at a time, so that it often meets the edges of windows.
#ifdef MFU_FUZZED
inline constexpr std::size_t kWindowBytes = 512;
#else
inline constexpr std::size_t kWindowBytes = 256u << 10;
#endif

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to `most` bytes into `to`. Returns 0 if there are no more. If something ends the
  // stream early (a broken archive, a read error), it ends here too, and problem() says what
  // happened.
  virtual std::size_t read(char* to, std::size_t most) = 0;
  virtual std::optional<std::string> problem() const = 0;
  virtual std::uint64_t file_bytes() const = 0;  // bytes of the file that were read so far
  // True if problem() is no damage: the content was made to be too large.
  virtual bool refused() const { return false; }
};

// `cancel` may be null. Setting it also ends a read that waits for a pipe.
Result<std::unique_ptr<ByteSource>> open_source(const std::string& path,
                                                const std::atomic<bool>* cancel);
std::unique_ptr<ByteSource> memory_source(std::string_view bytes);

}  // namespace mfu
