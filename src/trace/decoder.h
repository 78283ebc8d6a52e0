// Decompression in a stream: bytes in, bytes out, bounded memory whatever the archive claims.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace mfu {

class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  struct Step {
    std::size_t taken = 0;  // of the input
    std::size_t given = 0;  // to the output
    bool at_end = false;    // a member ended here; more may follow
  };
  // Where nothing was taken and nothing given it is over.
  virtual Step decode(std::string_view in, char* to, std::size_t most) = 0;
  virtual std::optional<std::string> problem() const = 0;
  // Between members: may the input end here?
  virtual bool complete() const = 0;
};

// Null where the first bytes are of neither.
std::unique_ptr<StreamDecoder> decoder_for(std::string_view first_bytes);

}  // namespace mfu
